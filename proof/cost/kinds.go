package main

import (
	"context"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/internal/load"
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
	// counted is how many requests are counted.
	counted int
}

// How many requests are counted for their allocations. The daemon's metrics may lack the last few hundred
// objects of each size: the more requests, the less that is. For system calls fewer do, as they are exact.
const (
	countedReads  = 12_800
	countedLists  = 3_200
	countedWrites = 6_400
	countedCalls  = 1_280
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
		{"GET hit", settled, always(gets, entry), nil, ok, countedReads},
		{"GET of a settled copy", uncached, always(gets, entry), nil, ok, countedReads},
		{"GET of a pending write", pending, always(gets, entry), nil, ok, countedReads},
		{"GET of a known absence", settled, always(gets, absent), nil, answered("404"), countedReads},
		{"LIST of 100", settled, lists, nil, ok, countedLists},
		{"PUT durable, distinct keys", nil, each(puts), nil, ok, countedWrites},
		{"PUT durable, one key", nil, always(puts, oneKey), nil, ok, countedWrites},
		{"DELETE", nil, each(deletes), each(puts), ok, countedWrites},
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
	b, err := s.batch(ctx, w, on, connections, "first", w.counted)
	if err != nil {
		return c, err
	}
	if c[objects], c[space], err = b.allocated(ctx, on.URL()); err != nil {
		return c, err
	}
	if b, err = s.batch(ctx, w, on, connections, "second", countedCalls); err != nil {
		return c, err
	}
	counted, err := b.traced(ctx, on.Pid(), s.dir)
	if err != nil {
		return c, err
	}
	c.addCalls(counted, b.requests())
	if w.on == nil {
		err = on.Kill() // its disk and its processors are the next one's
	}
	return c, err
}

// batch makes the requests that have to come before, and returns a batch of the others.
func (s *stage) batch(ctx context.Context, w work, on *child.Process, connections int, name string, counted int) (batch, error) {
	b := batch{
		address: on.Address(), connections: connections, warmup: max(10, warmup/connections), counted: counted / connections,
		request: w.request(on.Address(), name), answer: w.answer,
	}
	if w.before == nil {
		return b, nil
	}
	_, err := load.Run(ctx, load.Options{
		Address: b.address, Connections: connections, Requests: b.all(), Answer: w.answer, Request: w.before(b.address, name),
	})
	return b, err
}
