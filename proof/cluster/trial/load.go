package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/cluster/fleet"
)

// unanswered is the end of a request whose answer nobody has seen.
const unanswered = time.Duration(math.MaxInt64)

// namespaces are those of a trial; the first one has the hot keys.
var namespaces = []string{"fleet", "notes", "plans", "facts"}

// books have what the callers of one daemon have asked for, and been answered.
type books struct {
	mu      sync.Mutex
	writes  []check.Write
	reads   []check.Read
	unknown int     // reads answered 503: not known here, and the bucket away
	failed  []error // of which nobody expects any
}

// caller works on one daemon.
type caller struct {
	trial *trial
	host  int
	name  string // in its values
	next  int    // the number of its next value
	books *books
}

// work goes on until the context ends.
func (c *caller) work(ctx context.Context) {
	for ctx.Err() == nil {
		c.one(ctx)
		rest := time.Duration(rand.ExpFloat64() * float64(c.trial.think))
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// one makes one request. A request is always answered: the end of the load does not cut it off.
func (c *caller) one(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	e := c.entry()
	switch n := rand.IntN(100); {
	case n < 50:
		c.read(ctx, e)
	case n < 90:
		c.put(ctx, e)
	case n < 97:
		c.delete(ctx, e)
	default:
		if _, err := c.daemon().List(ctx, e.Namespace, 100); err != nil {
			c.missed(err)
		}
	}
}

func (c *caller) daemon() *fleet.Daemon { return c.trial.daemons[c.host] }

// entry is one of the few that all write, or one of many.
func (c *caller) entry() check.Entry {
	if rand.IntN(100) < 30 {
		return check.Entry{Namespace: namespaces[0], Key: fmt.Sprintf("key.%d", rand.IntN(c.trial.hot))}
	}
	return check.Entry{Namespace: namespaces[rand.IntN(len(namespaces))], Key: fmt.Sprintf("key.%d", rand.IntN(c.trial.keys))}
}

func (c *caller) put(ctx context.Context, e check.Entry) {
	c.next++
	value := fmt.Sprintf("%s-%d-%s", c.name, c.next, strings.Repeat("x", rand.IntN(300)))
	w := check.Write{Host: c.host, Entry: e, Value: value, Began: c.trial.now()}
	seq, err := c.daemon().Put(ctx, e, value)
	c.wrote(w, seq, err)
}

func (c *caller) delete(ctx context.Context, e check.Entry) {
	w := check.Write{Host: c.host, Entry: e, Delete: true, Began: c.trial.now()}
	seq, err := c.daemon().Delete(ctx, e)
	if seq == 0 && err == nil {
		return // there was nothing to delete
	}
	c.wrote(w, seq, err)
}

func (c *caller) wrote(w check.Write, seq uint64, err error) {
	w.Seq, w.Ended = seq, c.trial.now()
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	if err != nil {
		w.Seq, w.Ended = 0, unanswered
		c.books.failed = append(c.books.failed, err)
	}
	c.books.writes = append(c.books.writes, w)
}

func (c *caller) read(ctx context.Context, e check.Entry) {
	r := check.Read{Host: c.host, Entry: e, Began: c.trial.now()}
	s, found, err := c.daemon().Get(ctx, e)
	if err != nil {
		c.missed(err)
		return
	}
	r.Found, r.Value, r.UpdatedAt, r.Ended = found, s.Value, s.UpdatedAt, c.trial.now()
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	c.books.reads = append(c.books.reads, r)
}

// missed counts a read without a result. Only one of something unknown may have none.
func (c *caller) missed(err error) {
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	if api.IsRefused(err, http.StatusServiceUnavailable) {
		c.books.unknown++
		return
	}
	c.books.failed = append(c.books.failed, err)
}
