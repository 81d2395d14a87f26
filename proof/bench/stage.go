package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/botwired/botwired/proof/load"
)

// contender is one of the compared servers.
type contender string

// The contenders, in the order of the tables.
const (
	botwired contender = "botwired"
	page     contender = "page" // botwired while a page is open: see openPage
	redis    contender = "redis"
	nginx    contender = "nginx" // as a cache
	bare     contender = "bare"
	upstream contender = "upstream"
	echo     contender = "echo" // over TCP, of as many bytes: the least that an answer can cost
)

var contenders = []contender{botwired, page, redis, nginx, bare, echo, upstream}

// stage holds the servers that live through the whole run, filled and checked.
type stage struct {
	lab     *lab
	options *options

	upstream     *server
	sink         *server // for the flushes of daemons during a measurement
	daemon       *server // with the default settings
	uncached     *server // a daemon whose cache holds nothing
	bare         *server
	redisReads   *server // nil, as redisWrites, if there is no Redis
	redisWrites  *server
	redisVersion string
	nginx        *server // nil if there is none
	nginxVersion string

	bodySize map[string]int // of the daemon's answer to a path, in bytes
	getSize  int            // of the daemon's answer to a GET of an entry, with its head
	putSize  int            // of that to a PUT
}

// uncachedMemory is too little for any answer: each comes from the settled copy.
const uncachedMemory = "1B"

func openStage(ctx context.Context, l *lab, o *options) (*stage, error) {
	s := &stage{lab: l, options: o, bodySize: make(map[string]int)}
	var err error
	if s.upstream, err = l.start(ctx, l.upstream(o.Latency)); err != nil {
		return nil, err
	}
	if s.sink, err = l.start(ctx, l.sink("", o.Latency)); err != nil {
		return nil, err
	}
	if s.bare, err = l.start(ctx, l.bare()); err != nil {
		return nil, err
	}
	if s.daemon, err = l.start(ctx, l.botwired(s.upstream.address)); err != nil {
		return nil, err
	}
	if s.uncached, err = l.start(ctx, l.botwired(s.upstream.address, "--cache-memory", uncachedMemory)); err != nil {
		return nil, err
	}
	if err := s.openRedis(ctx); err != nil {
		return nil, err
	}
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	if err := s.learn(ctx); err != nil {
		return nil, err
	}
	return s, s.openNginx(ctx)
}

func (s *stage) openRedis(ctx context.Context) (err error) {
	program := s.options.redis
	if s.redisVersion, err = findRedis(ctx, program); err != nil {
		fmt.Fprintln(os.Stderr, "Redis is left out:", err)
		return nil
	}
	if s.redisReads, err = s.lab.start(ctx, redisReads(program)); err != nil {
		return err
	}
	s.redisWrites, err = s.lab.start(ctx, redisWrites(program))
	return err
}

// fillers is the number of connections that fill a store. It divides the number of
// entries.
const fillers = 50

// listed names the namespaces for LIST by their number of keys.
var listed = []int{100, 1000}

func listPath(n int) string { return fmt.Sprintf("/memory/list-%d?limit=%d", n, n) }

// listedEntry names the i-th entry of the namespace of n keys.
func listedEntry(n int) naming {
	return func(dst []byte, connection, i int) []byte {
		dst = strconv.AppendInt(append(dst, "list-"...), int64(n), 10)
		return strconv.AppendInt(append(dst, "/key-"...), int64(connection+i*fillers), 10)
	}
}

// fill gives upstream, a daemon and Redis the entries that bench reads. The daemon flushes them, so that the other
// daemon finds them upstream even if -env has both seal their namespaces.
func (s *stage) fill(ctx context.Context) error {
	each := func(dst []byte, connection, n int) []byte { return append(dst, entryPath(connection+n*fillers)...) }
	var err error
	for _, to := range []*server{s.upstream, s.daemon} {
		if err == nil {
			err = fill(ctx, to.address, load.HTTPAnswer, entries, httpPuts(to.address, each))
		}
		for _, n := range listed {
			if err == nil {
				err = fill(ctx, to.address, load.HTTPAnswer, n, httpPuts(to.address, listedEntry(n)))
			}
		}
	}
	if err == nil {
		err = flush(ctx, s.daemon.address)
	}
	for _, r := range []*server{s.redisReads, s.redisWrites} {
		if err == nil && r != nil {
			err = fill(ctx, r.address, load.RedisAnswer, entries, redisSets(each))
		}
	}
	if err != nil {
		return fmt.Errorf("filling: %w", err)
	}
	return nil
}

// getEach reads every entry once.
func (s *stage) getEach(host string) requester {
	return func(dst []byte, connection, n int) []byte {
		return append(dst, get(host, "/memory/"+entryPath(connection+n*fillers))...)
	}
}

// learn makes the daemons read everything, and checks the answers.
func (s *stage) learn(ctx context.Context) error {
	for _, daemon := range []*server{s.daemon, s.uncached} {
		if err := fill(ctx, daemon.address, load.HTTPAnswer, entries, s.getEach(daemon.address)); err != nil {
			return err
		}
	}
	keys := map[string]int{"/memory/" + entryPath(0): 1}
	for _, n := range listed {
		keys[listPath(n)] = n
	}
	for path, want := range keys {
		body, err := ask(ctx, "GET", s.daemon.address, path)
		if got := strings.Count(body, `"key":`); err == nil && got != want {
			err = fmt.Errorf("%s: %d keys, want %d", path, got, want)
		}
		if err != nil {
			return err
		}
		s.bodySize[path] = len(body)
	}
	return s.learnSizes(ctx)
}

// learnSizes measures the daemon's answers for the echo.
func (s *stage) learnSizes(ctx context.Context) (err error) {
	host := s.daemon.address
	if s.getSize, err = answerSize(ctx, host, getEntries(host)); err != nil {
		return err
	}
	if s.putSize, err = answerSize(ctx, host, httpPuts(host, existing())); err != nil {
		return err
	}
	return flush(ctx, host)
}

// answerSize returns the size of the answer to a request.
func answerSize(ctx context.Context, address string, request requester) (size int, err error) {
	_, err = load.Run(ctx, load.Options{
		Address: address, Connections: 1, Requests: 1, Request: request,
		Answer: func(read []byte) (length int, err error) {
			size, err = load.HTTPAnswer(read)
			return size, err
		},
	})
	return size, err
}

// fill makes n requests.
func fill(ctx context.Context, address string, answer load.Parser, n int, request requester) error {
	_, err := load.Run(ctx, load.Options{
		Address: address, Connections: fillers, Requests: n / fillers, Answer: answer, Request: request,
	})
	return err
}
