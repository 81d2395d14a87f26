package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/cluster/fleet"
	"github.com/botwired/botwired/proof/load"
)

const (
	writers = 8
	// listed is the most that BotWire's API lists.
	listed = 1000
)

// fill writes entries through a daemon: their keys are numbered.
func fill(ctx context.Context, d *fleet.Daemon, namespace string, count int) error {
	failed := make([]error, writers)
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for i := w; i < count && failed[w] == nil; i += writers {
				_, failed[w] = d.Put(ctx, check.Entry{Namespace: namespace, Key: fmt.Sprintf("entry-%06d", i)}, fmt.Sprintf("the value of entry %d", i))
			}
		})
	}
	work.Wait()
	return errors.Join(failed...)
}

// weighs compares a daemon over an empty bucket with one over a bucket of many entries, none of which it has
// read: both have just started.
func (l *lab) weighs(ctx context.Context, r *result) error {
	url, err := l.nats(ctx)
	if err != nil {
		return err
	}
	empty, err := l.daemon(ctx, url, over("empty")...)
	if err != nil {
		return err
	}
	if r.Before, err = resident(ctx, empty); err != nil {
		return err
	}
	writer, err := l.daemon(ctx, url, over("watched", atOnce...)...)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(ctx, writer, "watched", l.watched), writer.Flush(ctx, patience)); err != nil {
		return err
	}
	if err := l.rest(); err != nil {
		return err
	}
	full, err := l.daemon(ctx, url, over("watched")...)
	if err != nil {
		return err
	}
	if err := lists(ctx, full, "watched", min(listed, l.watched)); err != nil {
		return err
	}
	r.After, err = resident(ctx, full)
	return err
}

// atRest is how long a daemon has nothing to do before it is weighed.
const atRest = 3 * time.Second

func resident(ctx context.Context, d *fleet.Daemon) (int64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(atRest):
		return d.Resident(), nil
	}
}

// lists waits until a namespace is listed with so many keys.
func lists(ctx context.Context, d *fleet.Daemon, namespace string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		keys, err := d.List(ctx, namespace, listed)
		if err == nil && len(keys) == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("%d keys are listed, want %d", len(keys), want))
		case <-time.After(glance):
		}
	}
}

// waits keeps writes pending until a flush asks for them.
var waits = []string{"--flush-linger", "1h", "--journal-max-bytes", "1GiB"}

func (l *lab) drainsBucket(ctx context.Context, r *result) error {
	url, err := l.nats(ctx)
	if err != nil {
		return err
	}
	r.OverBucket, r.ListBucket, err = l.drains(ctx, url, over("drained", waits...))
	return err
}

func (l *lab) drainsSQLite(ctx context.Context, r *result) error {
	h, err := l.hub(ctx)
	if err != nil {
		return err
	}
	if r.OverSQLite, r.ListThrough, err = l.drains(ctx, h.url, waits); err != nil {
		return err
	}
	r.ListSQLite, err = l.listing(ctx, fleet.At(h.url, ""))
	return err
}

// drains measures how long a daemon takes to carry its pending writes upstream, and then the listing of what
// they have made, at a daemon that has just started.
func (l *lab) drains(ctx context.Context, url string, flags []string) (d drain, listing delay, err error) {
	from, err := l.daemon(ctx, url, flags...)
	if err != nil {
		return d, listing, err
	}
	// Upstream makes now what it makes at first.
	if _, err := from.Put(ctx, check.Entry{Namespace: "first", Key: "first"}, "first"); err != nil {
		return d, listing, err
	}
	if err := errors.Join(from.Flush(ctx, patience), fill(ctx, from, "drained", l.drained)); err != nil {
		return d, listing, err
	}
	if n, err := from.Pending(ctx); err != nil || n != l.drained {
		return d, listing, errors.Join(err, fmt.Errorf("%d writes are pending, want %d", n, l.drained))
	}
	began := time.Now()
	if err := from.Flush(ctx, patience); err != nil {
		return d, listing, err
	}
	d.Took = time.Since(began)
	reader, err := l.daemon(ctx, url, flags...)
	if err != nil {
		return d, listing, err
	}
	if err := lists(ctx, reader, "drained", min(listed, l.drained)); err != nil {
		return d, listing, err
	}
	listing, err = l.listing(ctx, reader)
	return d, listing, err
}

// listing measures a LIST of the newest keys.
func (l *lab) listing(ctx context.Context, d *fleet.Daemon) (delay, error) {
	var h load.Histogram
	for range l.lists {
		began := time.Now()
		if _, err := d.List(ctx, "drained", listed); err != nil {
			return delay{}, err
		}
		h.Record(time.Since(began))
	}
	return delayOf(&h), nil
}
