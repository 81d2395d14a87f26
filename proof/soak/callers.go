package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/numbered"
	"github.com/botwired/botwired/proof/ask"
)

const (
	namespaces = 4
	writers    = 8
	keysEach   = 40 // of a writer's, in one namespace
	readers    = 8
	listers    = 2
)

// newModel is the model of all keys. A writer's keys lie side by side.
func newModel() *model {
	m := &model{}
	for w := range writers {
		for k := range keysEach {
			m.keys = append(m.keys, numbered.NewEntry(fmt.Sprintf("soak-%d", w%namespaces), fmt.Sprintf("w%d-k%d", w, k)))
		}
	}
	return m
}

// caller speaks HTTP to the daemon.
type caller struct {
	base func() string
	http *http.Client
}

func newCaller(base func() string) *caller {
	return &caller{base, ask.NewClient()}
}

// do makes one request. Its error means that there was no whole answer.
func (c *caller) do(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	a, err := ask.Once(ctx, c.http, method, c.base()+path, body)
	return a.Status, a.Body, err
}

// load is the callers at work, and the answers that they got.
type load struct {
	*model
	caller *caller
	seed   uint64
	think  time.Duration // a caller's mean pause between two requests

	asked      atomic.Int64
	unanswered atomic.Int64 // requests that got no answer: the daemon was killed
	full       atomic.Int64 // writes refused with 507
	unknown    atomic.Int64 // reads answered 503
}

// run works until ctx ends.
func (l *load) run(ctx context.Context) {
	var group sync.WaitGroup
	work := func(n uint64, task func(ctx context.Context, rng *rand.Rand) bool) {
		rng := rand.New(rand.NewPCG(l.seed, n))
		group.Go(func() {
			for ctx.Err() == nil {
				// A writer waits for its last request even when ctx ends: it has to know the outcome.
				if !task(context.WithoutCancel(ctx), rng) {
					pause(ctx, 50*time.Millisecond) // no daemon listens just now
				}
				if l.think > 0 {
					pause(ctx, time.Duration(rng.Int64N(int64(2*l.think))))
				}
			}
		})
	}
	for w := range writers {
		own := l.keys[w*keysEach : (w+1)*keysEach]
		work(uint64(w), func(ctx context.Context, rng *rand.Rand) bool { return l.write(ctx, own[pick(rng)], rng) })
	}
	for r := range readers {
		work(uint64(100+r), func(ctx context.Context, rng *rand.Rand) bool {
			return l.read(ctx, l.keys[rng.IntN(len(l.keys))])
		})
	}
	for r := range listers {
		work(uint64(200+r), func(ctx context.Context, rng *rand.Rand) bool {
			return l.list(ctx, fmt.Sprintf("soak-%d", rng.IntN(namespaces)))
		})
	}
	group.Wait()
}

// pick prefers few of a writer's keys, as agents do.
func pick(rng *rand.Rand) int {
	if rng.IntN(2) == 0 {
		return rng.IntN(4)
	}
	return rng.IntN(keysEach)
}

// size is a value's, in bytes: most are small.
func size(rng *rand.Rand) int {
	switch rng.IntN(50) {
	case 0:
		return 60_000
	case 1, 2, 3, 4:
		return 5_000
	}
	return 20 + rng.IntN(400)
}

// write writes or deletes, and reports whether there was an answer.
func (l *load) write(ctx context.Context, e *numbered.Entry, rng *rand.Rand) bool {
	if rng.IntN(8) == 0 {
		return l.delete(ctx, e)
	}
	n := e.Begin(false)
	body, err := json.Marshal(map[string]string{"value": numbered.Value(e.Key, n, size(rng))})
	if err != nil {
		l.wrong("%s: %v", e.Key, err)
		return false
	}
	status, answer, err := l.ask(ctx, http.MethodPut, e.Path(), body)
	if err != nil {
		return false
	}
	l.written(http.MethodPut, e, n, status, answer)
	return true
}

// written notes the answer to a write.
func (l *load) written(method string, e *numbered.Entry, n, status int, answer []byte) {
	switch {
	case status == http.StatusOK:
		e.Acknowledged(n)
	case status == http.StatusInsufficientStorage:
		e.Refused(n)
		l.full.Add(1)
	case isUnknown(status): // the daemon is stopping
	default:
		l.wrong("%s %s: %d %.200s", method, e.Key, status, answer)
	}
}

func (l *load) delete(ctx context.Context, e *numbered.Entry) bool {
	oldest, n := e.Oldest(), e.Begin(true)
	status, answer, err := l.ask(ctx, http.MethodDelete, e.Path(), nil)
	switch {
	case err != nil:
		return false
	case status == http.StatusNotFound:
		e.Refused(n)
		l.judge(e, oldest, "", false)
	default:
		l.written(http.MethodDelete, e, n, status, answer)
	}
	return true
}

// read reads an entry, and reports whether there was an answer.
func (l *load) read(ctx context.Context, e *numbered.Entry) bool {
	oldest := e.Oldest()
	status, answer, err := l.ask(ctx, http.MethodGet, e.Path(), nil)
	switch {
	case err != nil:
		return false
	case status == http.StatusOK || status == http.StatusNotFound:
		var doc struct{ Value string }
		if status == http.StatusOK {
			err = json.Unmarshal(answer, &doc)
		}
		if err != nil {
			l.wrong("GET %s: %v: %.200s", e.Key, err, answer)
			return true
		}
		l.judge(e, oldest, doc.Value, status == http.StatusOK)
	case isUnknown(status):
		l.unknown.Add(1)
	default:
		l.wrong("GET %s: %d %.200s", e.Key, status, answer)
	}
	return true
}

// isUnknown reports whether an answer says that the daemon does not know: it has given up
// its copy, and cannot ask upstream, or not so often.
func isUnknown(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

func (l *load) judge(e *numbered.Entry, oldest int, text string, found bool) {
	if err := e.Show(oldest, text, found); err != nil {
		l.wrong("%s/%s %v", e.Namespace, e.Key, err)
	}
}

// listed is an entry, and the model's knowledge of it when a listing begins.
type listed struct {
	*numbered.Entry
	writes int
	there  bool
}

// list compares a listing with all entries that nobody wrote to meanwhile.
func (l *load) list(ctx context.Context, namespace string) bool {
	var before []listed
	for _, e := range l.keys {
		if there, known, writes := e.Certain(); known && e.Namespace == namespace {
			before = append(before, listed{e, writes, there})
		}
	}
	status, answer, err := l.ask(ctx, http.MethodGet, "/memory/"+namespace+"?limit=1000", nil)
	if err != nil {
		return false
	}
	if isUnknown(status) {
		l.unknown.Add(1)
		return true
	}
	var doc struct{ Keys []struct{ Key string } }
	if err := json.Unmarshal(answer, &doc); status != http.StatusOK || err != nil {
		l.wrong("LIST %s: %d %.200s (%v)", namespace, status, answer, err)
		return true
	}
	shown := make(map[string]bool, len(doc.Keys))
	for _, k := range doc.Keys {
		shown[k.Key] = true
	}
	for _, e := range before {
		if _, _, writes := e.Certain(); writes == e.writes && shown[e.Key] != e.there {
			l.wrong("LIST %s: %s is shown: %t, and is there: %t", namespace, e.Key, shown[e.Key], e.there)
		}
	}
	return true
}

// ask makes a request and counts it.
func (l *load) ask(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	status, answer, err := l.caller.do(ctx, method, path, body)
	l.asked.Add(1)
	if err != nil {
		l.unanswered.Add(1)
	}
	return status, answer, err
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
