package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/proof/load"
	"github.com/botwired/botwired/proof/loopback"
)

const (
	entries = 1000 // that are read
	listed  = 100
	fillers = 20 // connections that fill a store; a divisor of both
)

// uncachedMemory is too little for any answer: each comes from the journal.
const uncachedMemory = "1B"

// stage has the daemons that answer, in a folder.
type stage struct {
	program string
	dir     string
	started []*child.Process
	// objectsOnly says that nobody may trace the daemons.
	objectsOnly bool

	upstream *child.Process
	nobody   string         // an address that refuses connections
	settled  *child.Process // has read all entries of upstream
	uncached *child.Process // likewise, and its cache holds nothing
	pending  *child.Process // has written all entries, to nobody, and its cache holds nothing
}

// openStage starts the daemons that are read from, and fills them.
func openStage(ctx context.Context, program, dir string) (s *stage, err error) {
	s = &stage{program: program, dir: dir}
	if s.nobody, err = loopback.FreeAddress(ctx); err != nil {
		return s, err
	}
	if s.upstream, err = s.start(ctx, "selfhost", "--embedded-latency", "0s"); err != nil {
		return s, err
	}
	if s.settled, err = s.daemon(ctx, s.upstream.Address()); err != nil {
		return s, err
	}
	if s.uncached, err = s.daemon(ctx, s.upstream.Address(), "--cache-memory", uncachedMemory); err != nil {
		return s, err
	}
	if s.pending, err = s.daemon(ctx, s.nobody, "--cache-memory", uncachedMemory); err != nil {
		return s, err
	}
	return s, s.fill(ctx)
}

// daemon starts a daemon in front of an upstream. Nothing grows stale.
func (s *stage) daemon(ctx context.Context, upstream string, settings ...string) (*child.Process, error) {
	args := []string{"serve", "--upstream-url", "http://" + upstream, "--cache-fresh-for", "24h", "--cache-absent-for", "24h"}
	return s.start(ctx, append(args, settings...)...)
}

func (s *stage) start(ctx context.Context, args ...string) (*child.Process, error) {
	dir := filepath.Join(s.dir, fmt.Sprint(len(s.started)))
	command := append([]string{s.program}, args...)
	p, err := child.Start(ctx, dir, append(command, "--listen", "127.0.0.1:0", "--data-dir", dir)...)
	if err == nil {
		s.started = append(s.started, p)
	}
	return p, err
}

func (s *stage) close() error {
	var errs []error
	for _, p := range s.started {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}

// fill writes the entries to upstream and to the daemon that keeps them, and has the others learn them.
func (s *stage) fill(ctx context.Context) error {
	for _, step := range []struct {
		on   *child.Process
		make func(host string, name naming) requester
		name naming
		n    int
	}{
		{s.upstream, puts, entry, entries}, {s.upstream, puts, ofList, listed}, {s.pending, puts, entry, entries},
		{s.settled, gets, entry, entries}, {s.uncached, gets, entry, entries},
	} {
		_, err := load.Run(ctx, load.Options{
			Address: step.on.Address(), Connections: fillers, Requests: step.n / fillers, Answer: answered("200"),
			Request: step.make(step.on.Address(), func(dst []byte, connection, n int) []byte {
				return step.name(dst, 0, connection+n*fillers)
			}),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
