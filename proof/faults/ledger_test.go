//go:build faults && linux

package faults

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/numbered"
)

// ledger holds the answers that callers got. Each key belongs to one writer, which
// numbers its writes. A read of a key may return its last acknowledged write, or a
// later one whose answer nobody saw.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*record
	answers map[int]int // by status; 0 counts requests without an answer
	acks    []ack
}

type record struct {
	next    int
	acked   int // 0: none
	unknown map[int]bool
}

// ack holds the times of a request that got 200, and of its answer.
type ack struct{ asked, answered time.Time }

func newLedger() *ledger {
	return &ledger{entries: make(map[string]*record), answers: make(map[int]int)}
}

// number returns which write to a key a value is from; 0 for an absent entry. A value
// that is not whole is an error.
func number(key, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, ok := numbered.Number(key, text)
	if !ok {
		return 0, fmt.Errorf("%s holds what nobody wrote: %.60q", key, text)
	}
	return n, nil
}

// put writes the next value of a key and keeps the books.
func (l *ledger) put(c *client, key string, size int) (status int, answer []byte) {
	l.mu.Lock()
	r := l.entries[key]
	if r == nil {
		r = &record{unknown: make(map[int]bool)}
		l.entries[key] = r
	}
	r.next++
	n := r.next
	l.mu.Unlock()
	asked := time.Now()
	status, answer, err := c.put(key, numbered.Value(key, n, size))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		status = 0
		r.unknown[n] = true
	case status == http.StatusOK:
		r.acked = n
		l.acks = append(l.acks, ack{asked, time.Now()})
	case status != http.StatusInsufficientStorage:
		r.unknown[n] = true
	}
	l.answers[status]++
	return status, answer
}

// check returns an error if no read of the key may return the value.
func (l *ledger) check(key, text string) error {
	n, err := number(key, text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.entries[key]
	if n == r.acked || n > r.acked && r.unknown[n] {
		return nil
	}
	return fmt.Errorf("%s holds write %d, and %d was acknowledged", key, n, r.acked)
}

func (l *ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]string, 0, len(l.entries))
	for key, r := range l.entries {
		if r.acked > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

func (l *ledger) answered(status int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[status]
}

// reached fails until the daemon has answered so many writes with 200.
func (l *ledger) reached(n int) error {
	if got := l.answered(http.StatusOK); got < n {
		return fmt.Errorf("%d writes taken", got)
	}
	return nil
}

// ackedAfter counts the acknowledged writes that began after a moment, and returns the
// time of the last answer of all.
func (l *ledger) ackedAfter(at time.Time) (begun int, latest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.acks {
		if a.asked.After(at) {
			begun++
		}
		if a.answered.After(latest) {
			latest = a.answered
		}
	}
	return begun, latest
}

// audit reads every acknowledged key from a daemon or from upstream.
func (l *ledger) audit(t *testing.T, who string, c *client) {
	t.Helper()
	keys := l.keys()
	if len(keys) == 0 {
		t.Fatal("nothing was acknowledged: the test tests nothing")
	}
	for _, key := range keys {
		text, err := c.get(key)
		if err == nil {
			err = l.check(key, text)
		}
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// load is a group of writers. Each goes round its own keys until the test stops it.
type load struct {
	stop chan struct{}
	done sync.WaitGroup
}

// write starts writers of keys with a common prefix. A writer also ends when the daemon
// no longer answers. If asked to, it reads each write back.
func (l *ledger) write(t *testing.T, c *client, prefix string, writers, keys, size int) *load {
	w := &load{stop: make(chan struct{})}
	for i := range writers {
		w.done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-w.stop:
					return
				default:
				}
				key := fmt.Sprintf("%s-%d-%d", prefix, i, n%keys)
				status, _ := l.put(c, key, size)
				if status == 0 {
					return
				}
				if n%4 == 0 && !l.readBack(t, c, key) {
					return
				}
			}
		})
	}
	return w
}

// readBack checks that a writer reads its own write; false if there is no answer.
func (l *ledger) readBack(t *testing.T, c *client, key string) bool {
	text, err := c.get(key)
	if err != nil {
		if errors.As(err, new(*unexpected)) {
			t.Errorf("a writer's own read: %v", err)
		}
		return false
	}
	if err := l.check(key, text); err != nil {
		t.Errorf("a writer's own read: %v", err)
	}
	return true
}

// end stops the writers and waits for them.
func (w *load) end() {
	close(w.stop)
	w.done.Wait()
}
