package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/numbered"
	"github.com/botwired/botwired/internal/tasks"
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
	base  func() string
	token func() string // empty: none is wanted
	http  *http.Client
}

func newCaller(base, token func() string) *caller {
	return &caller{base, token, ask.NewClient()}
}

// do makes one request. Its error means that there was no whole answer.
func (c *caller) do(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	a, err := c.named(ctx, method, path, body, "")
	return a.Status, a.Body, err
}

// refusals bounds how often a request is made whose token the daemon does not know yet, or does not know any more.
const refusals = 3000

// named makes a request with a name, if it has one.
func (c *caller) named(ctx context.Context, method, path string, body []byte, name string) (a ask.Answer, err error) {
	for range refusals {
		var headers []string
		if token := c.token(); token != "" {
			headers = append(headers, "Authorization", "Bearer "+token)
		}
		if name != "" {
			headers = append(headers, "Idempotency-Key", name)
		}
		a, err = ask.Once(ctx, c.http, method, c.base()+path, body, headers...)
		if err != nil || a.Status != http.StatusUnauthorized || tasks.Sleep(ctx, 20*time.Millisecond) != nil {
			break
		}
	}
	return a, err
}

// load is the callers at work, and the answers that they got.
type load struct {
	*model
	caller *caller
	seed   uint64
	think  time.Duration // a caller's mean pause between two requests

	logs     []*appended  // a writer's each
	shortage atomic.Int64 // odd while another program fills the disk; even and higher after damage
	*epochs

	asked      atomic.Int64
	repeated   atomic.Int64 // requests that were made again under their name
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
					_ = tasks.Sleep(ctx, 50*time.Millisecond) // no daemon listens just now
				}
				if l.think > 0 {
					_ = tasks.Sleep(ctx, time.Duration(rng.Int64N(int64(2*l.think))))
				}
			}
		})
	}
	for w := range writers {
		own := l.keys[w*keysEach : (w+1)*keysEach]
		work(uint64(w), func(ctx context.Context, rng *rand.Rand) bool {
			if rng.IntN(8) == 0 {
				return l.append(ctx, l.logs[w])
			}
			return l.write(ctx, own[pick(rng)], rng)
		})
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
	epoch, n := l.epoch(), e.Begin(false)
	body, err := json.Marshal(map[string]string{"value": numbered.Value(e.Key, n, size(rng))})
	if err != nil {
		l.wrong("%s: %v", e.Key, err)
		return false
	}
	shortage := l.shortage.Load()
	a, err := l.named(ctx, http.MethodPut, e.Path(), body, e, n)
	if err != nil {
		return false
	}
	l.within(epoch, func() { l.written(http.MethodPut, e, n, a, shortage) })
	return true
}

// named makes a write to an entry under a name of its own. It repeats the request until there is an answer,
// and at times also then: the daemon must give the first answer again.
func (l *load) named(ctx context.Context, method, path string, body []byte, e *numbered.Entry, n int) (ask.Answer, error) {
	name, shortage := fmt.Sprintf("%s-%d", e.Key, n), l.shortage.Load()
	a, err := l.untilAnswered(ctx, method, path, body, name)
	if err != nil || a.Status != http.StatusOK || n%4 != 0 {
		return a, err
	}
	again, err := l.caller.named(ctx, method, path, body, name)
	l.repeated.Add(1)
	if err != nil {
		l.missed(method, path, err)
	} else if !isUnknown(again.Status) && l.plenty(shortage) && (again.Status != a.Status || numberOf(again) != numberOf(a)) {
		l.wrong("%s %s, again: %d %q %.200s, at first %q", method, path, again.Status, numberOf(again), again.Body, numberOf(a))
	}
	return a, nil
}

// plenty reports whether nobody has filled the disk since, or damaged it: then the daemon has not given up the names.
func (l *load) plenty(since int64) bool { return since%2 == 0 && l.shortage.Load() == since }

// numberOf returns the number that the daemon has given a write.
func numberOf(a ask.Answer) string {
	_, seq, _ := strings.Cut(a.Header.Get("Botwired-Write"), "seq=")
	return seq
}

// repeats bounds how often a caller repeats a request that gets no answer.
const repeats = 100

// untilAnswered repeats a named request until there is an answer.
func (l *load) untilAnswered(ctx context.Context, method, path string, body []byte, name string) (a ask.Answer, err error) {
	for n := range repeats {
		a, err = l.caller.named(ctx, method, path, body, name)
		if l.asked.Add(1); err == nil {
			return a, nil
		}
		if l.missed(method, path, err); n > 0 {
			l.repeated.Add(1)
		}
		_ = tasks.Sleep(ctx, 50*time.Millisecond)
	}
	return a, err
}

// written notes the answer to a write.
func (l *load) written(method string, e *numbered.Entry, n int, a ask.Answer, shortage int64) {
	switch {
	case a.Status == http.StatusOK:
		e.Acknowledged(n)
	case a.Status == http.StatusInsufficientStorage:
		l.refused(e, n, shortage)
		l.full.Add(1)
	case isUnknown(a.Status): // the daemon is stopping
	default:
		l.wrong("%s %s: %d %.200s", method, e.Key, a.Status, a.Body)
	}
}

// refused notes that a write was refused, unless it may have been made at an earlier attempt whose name is gone.
func (l *load) refused(e *numbered.Entry, n int, shortage int64) {
	if l.plenty(shortage) {
		e.Refused(n)
	}
}

func (l *load) delete(ctx context.Context, e *numbered.Entry) bool {
	epoch, shortage := l.epoch(), l.shortage.Load()
	oldest, n := e.Oldest(), e.Begin(true)
	a, err := l.named(ctx, http.MethodDelete, e.Path(), nil, e, n)
	if err != nil {
		return false
	}
	l.within(epoch, func() {
		if a.Status != http.StatusNotFound {
			l.written(http.MethodDelete, e, n, a, shortage)
			return
		}
		l.refused(e, n, shortage)
		l.judge(e, oldest, "", false)
	})
	return true
}

// read reads an entry, and reports whether there was an answer.
func (l *load) read(ctx context.Context, e *numbered.Entry) bool {
	epoch, oldest := l.epoch(), e.Oldest()
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
		l.within(epoch, func() { l.judge(e, oldest, doc.Value, status == http.StatusOK) })
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
	epoch := l.epoch()
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
	l.within(epoch, func() {
		for _, e := range before {
			if _, _, writes := e.Certain(); writes == e.writes && shown[e.Key] != e.there {
				l.wrong("LIST %s: %s is shown: %t, and is there: %t", namespace, e.Key, shown[e.Key], e.there)
			}
		}
	})
	return true
}

// ask makes a request and counts it.
func (l *load) ask(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	status, answer, err := l.caller.do(ctx, method, path, body)
	l.asked.Add(1)
	if err != nil {
		l.missed(method, path, err)
	}
	return status, answer, err
}

// missed counts a request without an answer. A minute without an answer is wrong, also on a busy machine: a daemon that ends
// cuts its connections.
func (l *load) missed(method, path string, err error) {
	l.unanswered.Add(1)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		l.wrong("%s %s: %v", method, path, err)
	}
}
