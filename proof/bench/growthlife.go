package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// drainsWithin bounds the wait until upstream has everything.
	drainsWithin = time.Hour
	// drainSample is how many entries a daemon writes anew, while upstream is away, for bench to see
	// them drain from a daemon that holds many more.
	drainSample = 100_000
)

// life is that of one daemon. It holds the first of its sizes pending, and then settled. Then it grows
// to each of the others, all of it settled.
type life struct {
	namespaces int
	sizes      []int
}

// lives are a daemon for each of the sizes, in a few namespaces, and one in many.
func (s *growthSettings) lives() []life {
	var all []life
	for _, size := range s.Sizes {
		all = append(all, life{min(s.Namespaces, size), []int{size}})
	}
	if len(s.Wide) > 0 {
		all = append(all, life{s.WideNamespaces, s.Wide})
	}
	return all
}

// live measures a daemon throughout its life.
func (g *grower) live(ctx context.Context, l life) (points []*point, err error) {
	d, err := g.begin(ctx, l.sizes[0], l.namespaces)
	if err != nil {
		return nil, err
	}
	pending, err := g.measure(ctx, d, statePending)
	if err != nil {
		return nil, err
	}
	pending.FilledIn = float64(d.size) / d.filledAt
	up, err := g.lab.start(ctx, g.lab.keeper(d.upstream))
	if err != nil {
		return nil, err
	}
	drained, err := g.drain(ctx, d)
	if err != nil {
		return nil, err
	}
	pending.RSS, d.most = d.most, 0 // draining takes its memory for the pending writes
	settled, err := g.measure(ctx, d, stateSettled)
	if err != nil {
		return nil, err
	}
	settled.Drain = drained
	points = append(points, pending, settled)
	for _, size := range l.sizes[1:] {
		p, err := g.extend(ctx, d, up, size)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, errors.Join(d.remove(), up.remove())
}

// extend has a daemon hold more settled entries, and measures it. The entries do not come through
// the daemon: see [filling].
func (g *grower) extend(ctx context.Context, d *subjectOfGrowth, up *server, size int) (*point, error) {
	if _, err := g.drain(ctx, d); err != nil {
		return nil, err
	}
	d.kill()
	f := filling{from: d.size, to: size, namespaces: d.namespaces}
	began := time.Now()
	if err := f.fill(ctx, d.dir, g.progress); err != nil {
		return nil, err
	}
	took := time.Since(began)
	if _, err := ask(ctx, "POST", up.address, f.path()); err != nil {
		return nil, err
	}
	again, err := g.lab.start(ctx, g.daemon(d))
	if err != nil {
		return nil, err
	}
	d.server, d.size, d.most = again, size, 0
	p, err := g.measure(ctx, d, stateSettled)
	if err != nil {
		return nil, err
	}
	p.FilledIn = took.Seconds()
	p.Drain, err = g.drainSome(ctx, d, up)
	return p, err
}

// drainSome has upstream go away until the daemon has pending writes again, and then drains them.
func (g *grower) drainSome(ctx context.Context, d *subjectOfGrowth, up *server) (drained, error) {
	if _, err := g.drain(ctx, d); err != nil { // those of the measurement
		return drained{}, err
	}
	if _, err := ask(ctx, "POST", up.address, keeperAway); err != nil {
		return drained{}, err
	}
	g.progress.show("%s: writing some anew", amount(d.size, d.namespaces))
	if _, err := g.write(ctx, d, min(drainSample, d.size)); err != nil {
		return drained{}, err
	}
	if _, err := ask(ctx, "POST", up.address, keeperBack); err != nil {
		return drained{}, err
	}
	return g.drain(ctx, d)
}

// drained is how fast pending writes went upstream.
type drained struct {
	Writes  int     `json:"writes"`
	Seconds float64 `json:"seconds"`
}

// PerSecond is 0 if nothing was drained.
func (d drained) PerSecond() float64 {
	if d.Writes == 0 {
		return 0
	}
	return float64(d.Writes) / d.Seconds
}

// drain waits until nothing is pending. It asks for that once: a look at a hundred thousand namespaces
// costs the daemon what bench measures.
func (g *grower) drain(ctx context.Context, d *subjectOfGrowth) (drained, error) {
	ctx, cancel := context.WithTimeout(ctx, drainsWithin+time.Minute)
	defer cancel()
	n, _, err := pendingAt(ctx, d.address)
	if err != nil {
		return drained{}, err
	}
	g.progress.show("%s: %d to be carried upstream", amount(d.size, d.namespaces), n)
	path := fmt.Sprintf("http://%s/_botwired/flush?now=true&timeout=%s", d.address, drainsWithin)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, http.NoBody)
	if err != nil {
		return drained{}, err
	}
	req.Close = true
	began := time.Now()
	if _, err := bodyOf(req); err != nil {
		return drained{}, err
	}
	took := time.Since(began)
	return drained{n, took.Seconds()}, d.sample()
}
