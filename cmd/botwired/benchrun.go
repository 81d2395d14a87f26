package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/load"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/botwire"
)

const (
	// benchValueSize is the size of the values that bench writes, in bytes.
	benchValueSize = 200
	// benchCleanup bounds how long bench waits for the daemon to delete them upstream.
	benchCleanup = 10 * time.Second
)

// bench measures upstream and the daemon with one kind of client, the daemon's own for
// upstream: it believes no answer but BotWire's.
type bench struct {
	plan           benchPlan
	upstreamURL    string
	listen         string // for messages
	namespace      string
	direct, daemon *botwire.Client
	control        *client // for requests that bench does not measure

	wroteDirect, wroteDaemon bool
}

// newBench fails unless the daemon runs and bench can ask its upstream directly.
func newBench(ctx context.Context, settings *settingFlags, plan benchPlan) (*bench, error) {
	loaded, err := settings.load(nil)
	if err != nil {
		return nil, err
	}
	c := &loaded.Config
	if c.Upstream.URL == config.Embedded {
		return nil, errors.New("upstream.url = \"embedded\": it is inside the daemon, so it cannot be asked directly; " +
			"run botwired selfhost, and set upstream.url to its address")
	}
	if c.Upstream.Servers() != nil {
		return nil, fmt.Errorf("upstream.url = %q: bench compares with BotWire's API, which a NATS cluster does not have; "+
			"to measure it through that, run botwired selfhost --store, and set upstream.url to its address", c.Upstream.URL)
	}
	b := &bench{plan: plan, upstreamURL: c.Upstream.URL, namespace: "botwired-bench-" + strings.ToLower(rand.Text()[:8])}
	if b.control, err = newClient(loaded); err != nil {
		return nil, err
	}
	b.listen = b.control.listen
	if err := b.checkDaemon(ctx); err != nil {
		return nil, err
	}
	return b, b.openClients(c)
}

// checkDaemon fails if the daemon stands in front of another upstream than upstream.url.
func (b *bench) checkDaemon(ctx context.Context) error {
	body, err := b.control.do(ctx, request{method: http.MethodGet, path: surface("status")})
	if err != nil {
		return err
	}
	s, err := readStatus(b.control, body)
	if err != nil {
		return err
	}
	if string(s.Upstream.URL) != b.upstreamURL {
		return fmt.Errorf("botwired at %s stands in front of %s, but upstream.url is %s: set it to the upstream of botwired", b.listen, s.Upstream.URL, b.upstreamURL)
	}
	return nil
}

func (b *bench) openClients(c *config.Config) error {
	up, err := url.Parse(c.Upstream.URL)
	if err != nil {
		return fmt.Errorf("upstream.url = %q: %w", c.Upstream.URL, err)
	}
	opts := engineOptions(c)
	opts.URL, opts.Concurrency = up, 1
	b.direct = botwire.NewClient(opts)
	opts.URL, opts.Headers = &url.URL{Scheme: "http", Host: b.control.host}, make(http.Header)
	if b.control.token != "" {
		opts.Headers.Set("Authorization", "Bearer "+b.control.token)
	}
	opts.Dial = b.control.dial
	b.daemon = botwire.NewClient(opts)
	return nil
}

func (b *bench) close() {
	b.direct.Close()
	b.daemon.Close()
}

func (b *bench) id(key string) journal.ID { return journal.ID{Namespace: b.namespace, Key: key} }

// run reads and writes one entry on each side, one request after another.
func (b *bench) run(ctx context.Context) ([]benchRow, error) {
	direct, err := side(ctx, b.direct, b.id("direct"), b.plan.reads, b.plan.writes, &b.wroteDirect)
	if err != nil {
		return nil, fmt.Errorf("upstream at %s: %w", b.upstreamURL, err)
	}
	daemon, err := side(ctx, b.daemon, b.id("botwired"), b.plan.local, b.plan.local, &b.wroteDaemon)
	if err != nil {
		return nil, fmt.Errorf("botwired at %s: %w", b.listen, err)
	}
	return []benchRow{{"GET", direct.get, daemon.get}, {"PUT", direct.put, daemon.put}}, nil
}

type benchSide struct{ get, put benchCell }

func side(ctx context.Context, c *botwire.Client, id journal.ID, reads, writes int, wrote *bool) (s benchSide, err error) {
	// The first request opens the connection and is not measured.
	if _, err := c.Get(ctx, id); err != nil {
		return s, errors.Join(ctx.Err(), err)
	}
	*wrote = true
	if s.put, err = timed(writes, func(n int) error { return putNumbered(ctx, c, id, n) }); err == nil {
		s.get, err = timed(reads, func(int) error { return getPresent(ctx, c, id) })
	}
	return s, errors.Join(ctx.Err(), err)
}

// timed makes n calls, one after another.
func timed(n int, call func(int) error) (benchCell, error) {
	var h load.Histogram
	for i := range n {
		began := time.Now()
		if err := call(i); err != nil {
			return benchCell{}, err
		}
		h.Record(time.Since(began))
	}
	return benchCell{h.Count(), milliseconds(h.Percentile(50)), milliseconds(h.Percentile(99))}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func putNumbered(ctx context.Context, c *botwire.Client, id journal.ID, n int) error {
	value := strconv.Itoa(n) + " "
	value += strings.Repeat("v", benchValueSize-len(value))
	return c.Put(ctx, id, value)
}

func getPresent(ctx context.Context, c *botwire.Client, id journal.ID) error {
	found, err := c.Get(ctx, id)
	if err == nil && found == nil {
		err = errors.New("the entry that bench has just written is missing")
	}
	return err
}

// clean deletes what bench wrote, even when ctx has ended. It reports whether the daemon
// has still to carry its delete upstream.
func (b *bench) clean(ctx context.Context) (left bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*benchCleanup)
	defer cancel()
	if b.wroteDirect {
		err = b.remove(ctx, b.direct, "direct")
	}
	if !b.wroteDaemon {
		return false, err
	}
	if err := errors.Join(err, b.remove(ctx, b.daemon, "botwired")); err != nil {
		return false, err
	}
	_, err = flush(ctx, b.control, b.namespace, benchCleanup, false)
	var late *statusError
	if errors.As(err, &late) && late.status == http.StatusGatewayTimeout {
		return true, nil
	}
	return false, err
}

func (b *bench) remove(ctx context.Context, c *botwire.Client, key string) error {
	if _, err := c.Delete(ctx, b.id(key)); err != nil {
		return fmt.Errorf("removing %s/%s: %w", b.namespace, key, err)
	}
	return nil
}
