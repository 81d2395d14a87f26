// Package load puts load on a server and times its answers.
//
// In a closed loop each connection sends a request, reads the whole answer, and sends
// the next: a server that stalls gets fewer requests, and only those that wait show the
// stall. In an open loop requests are due at a given rate that no answer changes, and
// their times count from then: a stall shows in all requests that were due in it. An
// average or a percentile of a closed loop lacks that wait, which is known as coordinated
// omission.
//
// The package speaks as little of HTTP/1.1 and of Redis's protocol as that needs, over
// raw connections and without allocating. It shares the machine with the server, so it
// has to cost little, and the same for every server: on Linux one thread serves all
// connections with epoll, unless Options.Goroutines is set. It checks every answer, and the
// first that is not a success ends the run with an error.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// readBuffer is the size of one read, in bytes.
	readBuffer = 64 << 10
	// stuckAfter bounds the wait for one answer after the end of the run: a server that
	// hangs fails the run.
	stuckAfter = 30 * time.Second
)

// Options say which load goes to which server.
type Options struct {
	// Address is the server's TCP address.
	Address string
	// Connections is the number of requests in flight at any time; at least 1.
	Connections int
	// Warmup is how long Run makes requests before they count.
	Warmup time.Duration
	// Duration is how long Run makes requests that count. A request counts if it began
	// in that time; at least one of each connection does, even if the server is slow.
	Duration time.Duration
	// Requests, if not 0, is the most requests that each connection makes. Without a
	// Duration it makes all of them.
	Requests int
	// Rate, if not 0, makes the loop an open one: so many requests a second are due over
	// all connections, which take turns. A connection makes one request at a time, and one
	// that is late makes its next as soon as it can. Requests count that are due in
	// Duration, from when they are due.
	Rate float64
	// Sample, if not nil, runs twice beside the requests: when they begin to count, and
	// when Duration is over. It gets the number of answers so far, those of the warm-up
	// included. It needs a Duration.
	Sample func(answered int)
	// Goroutines, if true, gives each connection a goroutine, as systems other than Linux do
	// anyway. Request may then wait, and other loads may run beside this one in the same
	// program: the one thread keeps one of the runtime's processors for itself, even while it
	// waits for answers.
	Goroutines bool
	// Request makes the n-th request of a connection, both counted from 0, in the
	// empty slice dst.
	Request func(dst []byte, connection, n int) []byte
	// Answer recognises an answer.
	Answer Parser
}

// Parser finds the end of the first answer in the bytes read so far. It returns the
// answer's length, which may be more than those bytes, or 0 if it does not know it yet.
// It refuses an answer that is not a success.
type Parser func(read []byte) (length int, err error)

// Result holds the figures of a run.
type Result struct {
	Requests int // the number of those that count
	// PerSecond is the throughput: the answers that came in Duration. If none came then, it
	// is that of the requests that count until the last has its answer.
	PerSecond float64
	// Latency has the times from before a request was sent, or in an open loop from when
	// it was due, until its answer was read.
	Latency Histogram
}

// Run puts the load on the server and returns when it is over. It opens all connections
// before it makes the first request.
func Run(ctx context.Context, o Options) (*Result, error) { return drive(ctx, &o) }

// plan says when requests are due, and which of them count.
type plan struct {
	*Options
	start, begin, end time.Time // of the requests, and of those that count
	answered          atomic.Int64
}

// planFrom makes the plan of a run that starts now.
func planFrom(o *Options) *plan {
	start := time.Now()
	begin := start.Add(o.Warmup)
	return &plan{Options: o, start: start, begin: begin, end: begin.Add(o.Duration)}
}

// due returns when a connection has to make its n-th request, which in a closed loop is
// when it has the answer to the one before.
func (p *plan) due(connection, n int, answered time.Time) time.Time {
	if p.Rate == 0 {
		return answered
	}
	before := float64(n)*float64(p.Connections) + float64(connection)
	return p.start.Add(time.Duration(before / p.Rate * float64(time.Second)))
}

// more says whether a connection makes its n-th request, which is due then.
func (p *plan) more(n int, due time.Time, t *tally) bool {
	switch {
	case p.Requests > 0 && n >= p.Requests:
		return false
	case p.Duration == 0 || due.Before(p.end):
		return true
	}
	return p.Rate == 0 && t.count == 0 // a slow server is measured, too
}

// sample runs Sample at its two times, unless ctx ends before.
func (p *plan) sample(ctx context.Context) {
	if p.Sample == nil || p.Duration == 0 {
		return
	}
	for _, at := range []time.Time{p.begin, p.end} {
		if sleepUntil(ctx, at) != nil {
			return
		}
		p.Sample(int(p.answered.Load()))
	}
}

// sleepUntil returns ctx's error if it ends before.
func sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tally counts the requests of one connection.
type tally struct {
	count  int       // that count
	within int       // that were answered in Duration
	last   time.Time // when the last was answered
}

// record counts an answer, and its request if that was due after the warm-up.
func (p *plan) record(t *tally, latency *Histogram, due, answered time.Time) {
	p.answered.Add(1)
	if !answered.Before(p.begin) && answered.Before(p.end) {
		t.within++
	}
	if due.Before(p.begin) {
		return
	}
	t.count++
	t.last = answered
	latency.Record(answered.Sub(due))
}

// result sums over the connections.
func (p *plan) result(latency *Histogram, tallies []tally) *Result {
	r := &Result{Requests: latency.Count(), Latency: *latency}
	within, last := 0, p.begin
	for _, t := range tallies {
		within += t.within
		if t.last.After(last) {
			last = t.last
		}
	}
	if within > 0 {
		r.PerSecond = float64(within) / p.Duration.Seconds()
	} else if last.After(p.begin) {
		r.PerSecond = float64(r.Requests) / last.Sub(p.begin).Seconds()
	}
	return r
}

// endOf is an error's text for a server that hung up.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the server closed the connection")
	}
	return err
}

// surplus is the error of an answer that is followed by more.
func surplus(n int) error { return fmt.Errorf("%d bytes came after the answer", n) }
