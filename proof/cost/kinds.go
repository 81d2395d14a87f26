package main

import (
	"context"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/proof/load"
)

// work is a kind of requests, and the daemon that they go to.
type work struct {
	name string
	// on returns the daemon; nil stands for a new one, which takes writes and has no upstream.
	on func(*stage) *child.Process
	// request makes the requests of a batch, which has a name.
	request func(host, batch string) requester
	// before makes the requests that the daemon has answered before the others come; nil makes none.
	before func(host, batch string) requester
	answer load.Parser
}

// How many requests are counted, on all connections together: for what the daemon allocates, and then for its
// system calls. A daemon takes memory for its writes in large pieces, which need many writes to spread on.
const (
	countedHeap  = 6_400
	countedCalls = 1_280
)

// Before the daemon's allocations are counted, the cache has seen all entries twice. It may forget some of them
// the first time. Later a few requests of each connection do.
const (
	warmup = 2 * entries
	few    = 5
)

// connections are those of the table.
var connections = []int{1, 64}

// works has the kinds in the order of the table.
func works() []work {
	settled := func(s *stage) *child.Process { return s.settled }
	uncached := func(s *stage) *child.Process { return s.uncached }
	pending := func(s *stage) *child.Process { return s.pending }
	always := func(make func(string, naming) requester, name naming) func(host, batch string) requester {
		return func(host, _ string) requester { return make(host, name) }
	}
	each := func(make func(string, naming) requester) func(host, batch string) requester {
		return func(host, batch string) requester { return make(host, distinct(batch)) }
	}
	lists := func(host, _ string) requester { return list(host) }
	ok := answered("200")
	return []work{
		{"GET hit", settled, always(gets, entry), nil, ok},
		{"GET of a settled copy", uncached, always(gets, entry), nil, ok},
		{"GET of a pending write", pending, always(gets, entry), nil, ok},
		{"GET of a known absence", settled, always(gets, absent), nil, answered("404")},
		{"LIST of 100", settled, lists, nil, ok},
		{"PUT durable, distinct keys", nil, each(puts), nil, ok},
		{"PUT durable, one key", nil, always(puts, oneKey), nil, ok},
		{"DELETE", nil, each(deletes), each(puts), ok},
	}
}

// kinds are the rows of the table in their order.
func kinds() (all []kind) {
	for _, w := range works() {
		for _, n := range connections {
			all = append(all, kind{w.name, n})
		}
	}
	return all
}

// measure counts what one request costs.
func (s *stage) measure(ctx context.Context, w work, connections int) (c counts, err error) {
	on := (*child.Process)(nil)
	if w.on != nil {
		on = w.on(s)
	} else if on, err = s.daemon(ctx, s.nobody); err != nil {
		return c, err
	}
	first := batch{warmup: max(few, warmup/connections), counted: countedHeap / connections}
	if first, err = w.prepare(ctx, first, on, connections, "first"); err != nil {
		return c, err
	}
	if c[objects], c[space], err = first.allocated(ctx, on); err != nil {
		return c, err
	}
	if w.on == nil {
		// Another daemon: this one may soon write a table of all that it has in memory.
		if err = on.Kill(); err == nil {
			on, err = s.daemon(ctx, s.nobody)
		}
		if err != nil {
			return c, err
		}
	}
	if err = s.countCalls(ctx, w, on, connections, &c); err == nil && w.on == nil {
		err = on.Kill() // its disk and its processors are the next one's
	}
	return c, err
}

// countCalls adds the system calls of a request to its costs, or that nobody has counted them.
func (s *stage) countCalls(ctx context.Context, w work, on *child.Process, connections int, c *counts) error {
	if s.objectsOnly {
		for i := reads; i < columns; i++ {
			c[i] = uncounted
		}
		return nil
	}
	second := batch{warmup: few, counted: countedCalls / connections}
	second, err := w.prepare(ctx, second, on, connections, "second")
	if err != nil {
		return err
	}
	made, err := second.traced(ctx, on.Pid(), s.dir)
	if err != nil {
		return err
	}
	c.addCalls(made, second.requests())
	return nil
}

// prepare makes the requests that have to come before, and returns the batch with the others.
func (w work) prepare(ctx context.Context, b batch, on *child.Process, connections int, name string) (batch, error) {
	b.address, b.connections, b.answer = on.Address(), connections, w.answer
	b.request = w.request(b.address, name)
	if w.before == nil {
		return b, nil
	}
	_, err := load.Run(ctx, load.Options{
		Address: b.address, Connections: connections, Requests: b.all(), Answer: w.answer, Request: w.before(b.address, name),
	})
	return b, err
}
