package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/cluster/fleet"
	"github.com/botwired/botwired/proof/load"
)

// result has the figures of a run.
type result struct {
	Watched, WatchedAtOnce, Unwatched   delay // until another host sees a write
	Entries                             int
	Before, After                       int64 // resident bytes of a daemon over a bucket without and with them
	Drained                             int
	OverBucket, OverSQLite              drain
	Keys                                int // of the listed namespace
	ListBucket, ListSQLite, ListThrough delay
}

type delay struct{ Half, Most time.Duration } // the 50th and 99th percentiles

func delayOf(h *load.Histogram) delay { return delay{h.Percentile(50), h.Percentile(99)} }

// drain is how long it took to carry all pending writes upstream.
type drain struct{ Took time.Duration }

func (l *lab) measure(ctx context.Context) (*result, error) {
	r := &result{Entries: l.watched, Drained: l.drained, Keys: l.drained}
	for _, part := range []struct {
		name string
		do   func(context.Context, *result) error
	}{
		{"a write here, read there, with the watch", l.watches},
		{"the same without", l.polls},
		{"the memory of a watch", l.weighs},
		{"a drain into the bucket, and its listing", l.drainsBucket},
		{"the same with SQLite", l.drainsSQLite},
	} {
		if !strings.Contains(part.name, l.only) {
			continue
		}
		fmt.Fprintln(os.Stderr, part.name)
		if err := errors.Join(part.do(ctx, r), l.rest()); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return r, nil
}

// over are the flags of a daemon over a bucket of its own.
func over(bucket string, flags ...string) []string {
	return append([]string{"--upstream-nats-bucket", bucket}, flags...)
}

// atOnce has the flusher wait no longer than it must for a newer write to the same entry.
var atOnce = []string{"--flush-linger", "1ms"}

func (l *lab) watches(ctx context.Context, r *result) (err error) {
	url, err := l.nats(ctx)
	if err != nil {
		return err
	}
	if r.Watched, err = l.pair(ctx, url, over("default")); err != nil {
		return err
	}
	if err := l.rest(); err != nil {
		return err
	}
	r.WatchedAtOnce, err = l.pair(ctx, url, over("atonce", atOnce...))
	return err
}

// pair measures how long one host takes to see each write of another: one after the other.
func (l *lab) pair(ctx context.Context, url string, flags []string) (d delay, err error) {
	from, err := l.daemon(ctx, url, flags...)
	if err != nil {
		return d, err
	}
	to, err := l.daemon(ctx, url, flags...)
	if err != nil {
		return d, err
	}
	var h load.Histogram
	for i := range l.writes + 1 {
		e := check.Entry{Namespace: "seen", Key: fmt.Sprint("key", i%10)}
		took, err := seen(ctx, from, to, e, fmt.Sprint("value", i))
		if err != nil {
			return d, err
		}
		if i > 0 { // the first has to wait until the bucket is made
			h.Record(took)
		}
	}
	return delayOf(&h), nil
}

// glance is between two looks of a reader.
const glance = 200 * time.Microsecond

// seen is the time from the beginning of a write at one host until a read at another one shows it.
func seen(ctx context.Context, from, to *fleet.Daemon, e check.Entry, value string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	if _, err := from.Put(ctx, e, value); err != nil {
		return 0, err
	}
	for {
		s, found, err := to.Get(ctx, e)
		if found && s.Value == value {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, errors.Join(err, fmt.Errorf("nobody sees %s", value))
		case <-time.After(glance):
		}
	}
}

// polled is how many entries are waited for at once without a watch: each takes the time that a copy is fresh.
const polled = 20

// polls measures the same with BotWire's memory service as upstream.
func (l *lab) polls(ctx context.Context, r *result) error {
	h, err := l.hub(ctx)
	if err != nil {
		return err
	}
	from, err := l.daemon(ctx, h.url)
	if err != nil {
		return err
	}
	to, err := l.daemon(ctx, h.url)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var all load.Histogram
	failed := make([]error, polled)
	var work sync.WaitGroup
	for i := range polled {
		work.Go(func() {
			e := check.Entry{Namespace: "seen", Key: fmt.Sprint("key", i)}
			if _, failed[i] = seen(ctx, from, to, e, "first"); failed[i] != nil {
				return
			}
			time.Sleep(time.Duration(i) * 500 * time.Millisecond) // at another point of the copy's life each
			took, err := seen(ctx, from, to, e, "second")
			failed[i] = err
			mu.Lock()
			defer mu.Unlock()
			all.Record(took)
		})
	}
	work.Wait()
	r.Unwatched = delayOf(&all)
	return errors.Join(failed...)
}
