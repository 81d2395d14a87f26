package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/botwired/botwired/internal/load"
)

// subject is a server and its load.
type subject struct {
	address string
	answer  load.Parser
	request requester
	// done checks what the load has done and clears it away. It may be nil.
	done func(context.Context) error
}

// workload is a kind of load, and says how each contender comes by it. A contender that
// is not in the map, or whose function returns nil, does not take part.
type workload struct {
	name string
	on   map[contender]func(context.Context, *stage) (*subject, error)
}

// The names of the workloads in the goals.
const (
	getHit      = "GET hit"
	putDistinct = "PUT durable, distinct keys"
)

func workloads() []workload {
	all := []workload{
		{getHit, map[contender]func(context.Context, *stage) (*subject, error){
			botwired: readDaemon,
			page:     paged(readDaemon, false),
			bare:     bareAnswers("/memory/" + entryPath(0)),
			redis: func(_ context.Context, s *stage) (*subject, error) {
				return s.ofRedis(s.redisReads, redisGets()), nil
			},
			upstream: func(_ context.Context, s *stage) (*subject, error) {
				return ofHTTP(s.upstream, getEntries(s.upstream.address)), nil
			},
		}},
		{"GET of a settled copy", map[contender]func(context.Context, *stage) (*subject, error){
			botwired: func(ctx context.Context, s *stage) (*subject, error) { return s.readHere(ctx, s.uncached) },
			bare:     bareAnswers("/memory/" + entryPath(0)),
		}},
		{putDistinct, writes(distinct)},
		{"PUT durable, one key", writes(oneKey)},
		{"mixed 90/10", mixedOnAll()},
	}
	for _, n := range listed {
		all = append(all, workload{fmt.Sprintf("LIST of %d", n), lists(listPath(n))})
	}
	return all
}

func ofHTTP(s *server, request requester) *subject {
	return &subject{address: s.address, answer: load.HTTPAnswer, request: request}
}

// ofRedis returns nil if there is no Redis.
func (s *stage) ofRedis(r *server, request requester) *subject {
	if r == nil {
		return nil
	}
	return &subject{address: r.address, answer: load.RedisAnswer, request: request}
}

// bareAnswers makes the bare handler answer as many bytes as the daemon.
func bareAnswers(path string) func(context.Context, *stage) (*subject, error) {
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

// writes go to a new store each time, except upstream's.
func writes(name naming) map[contender]func(context.Context, *stage) (*subject, error) {
	fresh := func(ctx context.Context, s *stage, c command, answer load.Parser, request func(host string) requester) (*subject, error) {
		server, err := s.lab.start(ctx, c)
		if err != nil {
			return nil, err
		}
		return &subject{
			address: server.address, answer: answer, request: request(server.address),
			done: func(context.Context) error { return server.remove() },
		}, nil
	}
	puts := func(host string) requester { return httpPuts(host, name) }
	ours := func(ctx context.Context, s *stage) (*subject, error) {
		return fresh(ctx, s, s.lab.botwired(s.sink.address), load.HTTPAnswer, puts)
	}
	return map[contender]func(context.Context, *stage) (*subject, error){
		botwired: ours,
		page:     paged(ours, true),
		redis: func(ctx context.Context, s *stage) (*subject, error) {
			if s.redisWrites == nil {
				return nil, nil
			}
			return fresh(ctx, s, redisWrites(s.options.redis), load.RedisAnswer,
				func(string) requester { return redisSets(name) })
		},
		upstream: func(_ context.Context, s *stage) (*subject, error) {
			return ofHTTP(s.upstream, puts(s.upstream.address)), nil
		},
	}
}

// mixedOnAll reads and writes the same entries. The daemon has carried its writes
// upstream before the next cell begins.
func mixedOnAll() map[contender]func(context.Context, *stage) (*subject, error) {
	overHTTP := func(host string) requester { return mixed(getEntries(host), httpPuts(host, existing())) }
	return map[contender]func(context.Context, *stage) (*subject, error){
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

func lists(path string) map[contender]func(context.Context, *stage) (*subject, error) {
	return map[contender]func(context.Context, *stage) (*subject, error){
		botwired: func(ctx context.Context, s *stage) (*subject, error) {
			return answeredHere(ctx, ofHTTP(s.daemon, always(get(s.daemon.address, path))))
		},
		bare: bareAnswers(path),
		upstream: func(_ context.Context, s *stage) (*subject, error) {
			return ofHTTP(s.upstream, always(get(s.upstream.address, path))), nil
		},
	}
}
