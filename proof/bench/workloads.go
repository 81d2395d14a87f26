package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/botwired/botwired/proof/load"
)

// subject is a server and its load.
type subject struct {
	server  *server
	address string
	answer  load.Parser
	request requester
	// done checks what the load has done and clears it away. It may be nil.
	done func(context.Context) error
}

// preparation makes a contender ready for a cell. It returns nil if the contender is missing.
type preparation func(context.Context, *stage) (*subject, error)

// workload is a kind of load, and says how each contender comes by it. A contender that
// is not in the map, or whose function returns nil, does not take part.
type workload struct {
	name string
	on   map[contender]preparation
	wide bool // at all numbers of connections, and in an open loop
}

// openConnections are those of the open loop.
const openConnections = 64

// runs says whether a contender takes part at a number of connections.
func (w *workload) runs(c contender, connections int) bool {
	switch {
	case w.on[c] == nil:
		return false
	case c == page:
		return connections == 64
	case c == upstream || !w.wide:
		return connections == 1 || connections == 64
	}
	return true
}

// The names of the workloads in the goals.
const (
	getHit      = "GET hit"
	putDistinct = "PUT durable, distinct keys"
)

func workloads() []workload {
	all := []workload{
		{name: getHit, wide: true, on: map[contender]preparation{
			botwired: readDaemon,
			page:     paged(readDaemon, false),
			bare:     bareAnswers("/memory/" + entryPath(0)),
			redis: func(_ context.Context, s *stage) (*subject, error) {
				return s.ofRedis(s.redisReads, redisGets()), nil
			},
			nginx: func(_ context.Context, s *stage) (*subject, error) {
				if s.nginx == nil {
					return nil, nil
				}
				on := ofHTTP(s.nginx, getEntries(s.nginx.address))
				on.answer = nginxHit
				return on, nil
			},
			echo: func(ctx context.Context, s *stage) (*subject, error) {
				return s.fresh(ctx, s.lab.echo(s.getSize), load.HTTPAnswer, getEntries)
			},
			upstream: func(_ context.Context, s *stage) (*subject, error) {
				return ofHTTP(s.upstream, getEntries(s.upstream.address)), nil
			},
		}},
		{name: "GET of a settled copy", on: map[contender]preparation{
			botwired: func(ctx context.Context, s *stage) (*subject, error) { return s.readHere(ctx, s.uncached) },
			bare:     bareAnswers("/memory/" + entryPath(0)),
		}},
		{name: putDistinct, wide: true, on: writes(distinct)},
		{name: "PUT durable, one key", on: writes(oneKey)},
		{name: "mixed 90/10", on: mixedOnAll()},
	}
	for _, n := range listed {
		all = append(all, workload{name: fmt.Sprintf("LIST of %d", n), on: lists(listPath(n))})
	}
	return all
}

func ofHTTP(s *server, request requester) *subject {
	return &subject{server: s, address: s.address, answer: load.HTTPAnswer, request: request}
}

// ofRedis returns nil if there is no Redis.
func (s *stage) ofRedis(r *server, request requester) *subject {
	if r == nil {
		return nil
	}
	return &subject{server: r, address: r.address, answer: load.RedisAnswer, request: request}
}

// bareAnswers makes the bare handler answer as many bytes as the daemon.
func bareAnswers(path string) preparation {
	return func(_ context.Context, s *stage) (*subject, error) {
		return ofHTTP(s.bare, always(get(s.bare.address, fmt.Sprintf("/%d", s.bodySize[path])))), nil
	}
}

func readDaemon(ctx context.Context, s *stage) (*subject, error) { return s.readHere(ctx, s.daemon) }

// readHere reads from a daemon, and fails if the daemon asked upstream.
func (s *stage) readHere(ctx context.Context, daemon *server) (*subject, error) {
	return answeredHere(ctx, ofHTTP(daemon, getEntries(daemon.address)))
}

func answeredHere(ctx context.Context, on *subject) (*subject, error) {
	before, err := elsewhere(ctx, on.address)
	on.done = func(ctx context.Context) error {
		after, err := elsewhere(ctx, on.address)
		if err == nil && after != before {
			err = fmt.Errorf("botwired asked upstream for %.0f of the requests", after-before)
		}
		return err
	}
	return on, err
}

// fresh starts a server for one cell.
func (s *stage) fresh(ctx context.Context, c command, answer load.Parser, request func(host string) requester) (*subject, error) {
	server, err := s.lab.start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &subject{
		server: server, address: server.address, answer: answer, request: request(server.address),
		done: func(context.Context) error { return server.remove() },
	}, nil
}

// writes go to a new store each time, except upstream's.
func writes(name naming) map[contender]preparation {
	puts := func(host string) requester { return httpPuts(host, name) }
	ours := func(ctx context.Context, s *stage) (*subject, error) {
		return s.fresh(ctx, s.lab.botwired(s.sink.address), load.HTTPAnswer, puts)
	}
	return map[contender]preparation{
		botwired: ours,
		page:     paged(ours, true),
		redis: func(ctx context.Context, s *stage) (*subject, error) {
			if s.redisWrites == nil {
				return nil, nil
			}
			return s.fresh(ctx, redisWrites(s.options.redis), load.RedisAnswer,
				func(string) requester { return redisSets(name) })
		},
		echo: func(ctx context.Context, s *stage) (*subject, error) {
			return s.fresh(ctx, s.lab.echo(s.putSize), load.HTTPAnswer, puts)
		},
		upstream: func(_ context.Context, s *stage) (*subject, error) {
			return ofHTTP(s.upstream, puts(s.upstream.address)), nil
		},
	}
}

// mixedOnAll reads and writes the same entries. The daemon has carried its writes
// upstream before the next cell begins.
func mixedOnAll() map[contender]preparation {
	overHTTP := func(host string) requester { return mixed(getEntries(host), httpPuts(host, existing())) }
	return map[contender]preparation{
		botwired: func(ctx context.Context, s *stage) (*subject, error) {
			on, err := answeredHere(ctx, ofHTTP(s.daemon, overHTTP(s.daemon.address)))
			check := on.done
			on.done = func(ctx context.Context) error {
				return errors.Join(check(ctx), flush(ctx, on.address))
			}
			return on, err
		},
		redis: func(_ context.Context, s *stage) (*subject, error) {
			return s.ofRedis(s.redisWrites, mixed(redisGets(), redisSets(existing()))), nil
		},
		upstream: func(_ context.Context, s *stage) (*subject, error) {
			return ofHTTP(s.upstream, overHTTP(s.upstream.address)), nil
		},
	}
}

func lists(path string) map[contender]preparation {
	return map[contender]preparation{
		botwired: func(ctx context.Context, s *stage) (*subject, error) {
			return answeredHere(ctx, ofHTTP(s.daemon, always(get(s.daemon.address, path))))
		},
		bare: bareAnswers(path),
		upstream: func(_ context.Context, s *stage) (*subject, error) {
			return ofHTTP(s.upstream, always(get(s.upstream.address, path))), nil
		},
	}
}
