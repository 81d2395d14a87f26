package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/proof/load"
)

// keepReceipts makes a daemon keep receipts: each write to an entry supersedes the one before it,
// of which a receipt stays.
func keepReceipts(p *pair) error {
	each := func(dst []byte, connection, _ int) []byte { return fmt.Appendf(dst, "receipts/counter-%d", connection) }
	address, want := p.daemons[with].address, p.trial.settings.Receipts
	if err := fill(p.ctx, address, load.HTTPAnswer, want, httpPuts(address, each)); err != nil {
		return err
	}
	if err := flush(p.ctx, address); err != nil {
		return err
	}
	kept, err := metric(p.ctx, address, "botwired_receipts")
	if err == nil && int(kept) < want {
		err = fmt.Errorf("the daemon keeps %.0f receipts, want %d", kept, want)
	}
	return err
}

// user uses a feature of a daemon until it stops.
type user struct {
	leave func()
	ended chan error
}

// begin starts a user. do ends with its context.
func begin(ctx context.Context, do func(context.Context) error) *user {
	ctx, leave := context.WithCancel(ctx)
	u := &user{leave: leave, ended: make(chan error, 1)}
	go func() {
		err := do(ctx)
		if ctx.Err() != nil {
			err = nil // it ends because it shall
		}
		u.ended <- err
	}()
	return u
}

// stop returns when the user has ended, with the error that it has met.
func (u *user) stop() error {
	u.leave()
	return <-u.ended
}

// steadily does something in the middle of each interval.
func steadily(ctx context.Context, every time.Duration, do func() error) error {
	for wait := every / 2; ; wait = every {
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
}

// askReceipts asks for one receipt after the other.
func askReceipts(p *pair) (*user, error) {
	return begin(p.ctx, func(ctx context.Context) error {
		seq := 0
		return steadily(ctx, asksEvery, func() error {
			seq = seq%p.trial.settings.Receipts + 1
			_, err := ask(ctx, http.MethodGet, p.daemons[with].address, fmt.Sprintf("/_botwired/receipts/%d", seq))
			return err
		})
	}), nil
}

// readMetrics reads the metrics again and again.
func readMetrics(p *pair) (*user, error) {
	return begin(p.ctx, func(ctx context.Context) error {
		return steadily(ctx, scrapesEvery, func() error {
			_, err := ask(ctx, http.MethodGet, p.daemons[with].address, "/_botwired/metrics")
			return err
		})
	}), nil
}

// follow returns what begins to read a stream of events as they come, once the daemon sends them.
func follow(path string) func(*pair) (*user, error) {
	return func(p *pair) (*user, error) {
		following, leave := context.WithCancel(p.ctx)
		events, err := open(following, http.DefaultClient, p.daemons[with].address, path)
		if err != nil {
			leave()
			return nil, err
		}
		u := begin(following, func(context.Context) error {
			n, err := io.Copy(io.Discard, events)
			p.events += n
			return errors.Join(errors.New("the events have ended"), err, events.Close())
		})
		u.leave = leave
		return u, nil
	}
}

// sawEvents fails if no event has come.
func sawEvents(p *pair) error {
	if p.events < leastEvents {
		return fmt.Errorf("the client has received %d bytes of events", p.events)
	}
	return nil
}

// collector takes spans as an OpenTelemetry collector does, and counts their bytes.
type collector struct {
	address string
	bytes   atomic.Int64
	server  *http.Server
	served  chan error
}

func openCollector(ctx context.Context) (*collector, error) {
	listener, err := listenLocally(ctx)
	if err != nil {
		return nil, err
	}
	c := &collector{address: listener.Addr().String(), served: make(chan error, 1)}
	c.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // if this fails the daemon is gone
		c.bytes.Add(n)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	go func() { c.served <- c.server.Serve(listener) }()
	return c, nil
}

func (c *collector) close() error {
	err := c.server.Close()
	if served := <-c.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// sawSpans fails if no span has come since the last check.
func sawSpans(p *pair) error {
	if p.trial.collector.bytes.Swap(0) == 0 {
		return errors.New("no span has come")
	}
	return nil
}
