package main

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/proof/load"
)

// batch is a number of requests on connections that stay open.
type batch struct {
	address     string
	connections int
	warmup      int // requests of each connection before those that count
	counted     int // requests of each connection that count
	request     func(dst []byte, connection, n int) []byte
	answer      load.Parser
}

// all is the number of requests of each connection.
func (b batch) all() int { return b.warmup + b.counted + 1 } // the last shows that the others are over

// requests is the number of the requests that count.
func (b batch) requests() int { return b.connections * b.counted }

// run makes the requests. It calls begin when all connections have made their warm-up and wait,
// and end when the requests that count are answered and all connections wait again. So no
// connection is opened or closed in between, and no request is half done.
func (b batch) run(ctx context.Context, begin, end func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g, running := errgroup.WithContext(ctx)
	first, last := b.newGate(running, begin, cancel), b.newGate(running, end, cancel)
	for connection := range b.connections {
		g.Go(func() error {
			_, err := load.Run(running, load.Options{
				Address: b.address, Connections: 1, Goroutines: true, Answer: b.answer, Requests: b.all(),
				Request: func(dst []byte, _, n int) []byte {
					switch n {
					case b.warmup:
						first.pass()
					case b.warmup + b.counted:
						last.pass()
					}
					return b.request(dst, connection, n)
				},
			})
			return err
		})
	}
	err := g.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause // the connections have only heard that they end
	}
	return err
}

// gate keeps all connections until the last has come and done something, or until the run fails.
type gate struct {
	failed  <-chan struct{} // closed when the run fails
	missing atomic.Int64
	open    chan struct{}
	action  func() error
	fail    context.CancelCauseFunc
}

// newGate returns a gate at which action happens while all wait. If it fails, it fails the run.
func (b batch) newGate(running context.Context, action func() error, fail context.CancelCauseFunc) *gate {
	g := &gate{failed: running.Done(), open: make(chan struct{}), action: action, fail: fail}
	g.missing.Store(int64(b.connections))
	return g
}

func (g *gate) pass() {
	if g.missing.Add(-1) == 0 {
		if err := g.action(); err != nil {
			g.fail(err)
		}
		close(g.open)
	}
	select {
	case <-g.open:
	case <-g.failed:
	}
}
