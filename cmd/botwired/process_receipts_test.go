package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// acknowledgement is a write that got its 200.
type acknowledgement struct {
	seq        uint64
	key, value string // "" for a delete
}

// receiptsBook records what callers were told and what upstream did.
type receiptsBook struct {
	mu      sync.Mutex
	acked   []acknowledgement
	applied map[string]bool // values that upstream has taken, each from one write
	ended   map[uint64]processReceipt
	wg      sync.WaitGroup

	namespaces []string // those of the writers
}

type processReceipt struct {
	Seq            uint64
	Namespace, Key string
	Op, State      string
	By             uint64
	Reason         string
}

// recorded wraps the service's handler and records its answers. It refuses some values for good.
func (b *receiptsBook) recorded(service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the daemon was killed
		}
		var doc struct{ Value string }
		_ = json.Unmarshal(body, &doc) // only a PUT has one
		doc.Value = unsealed(strings.TrimPrefix(r.URL.Path, "/memory/"), doc.Value, b.namespaces...)
		if strings.HasPrefix(doc.Value, "refused") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, `{"detail":"too large"}`)
			return
		}
		r = r.WithContext(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, r)
		if r.Method == http.MethodPut && answer.Code == http.StatusOK {
			b.mu.Lock()
			b.applied[doc.Value] = true
			b.mu.Unlock()
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// write lets a writer put and delete a few of its own keys until ctx ends or a write fails.
func (b *receiptsBook) write(ctx context.Context, c *child, life, writer int) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("receipts%d/w%dk%d", writer%2, writer, n%3)
		value := fmt.Sprintf("%d-%d-%d", life, writer, n)
		method, body, headers := http.MethodPut, `{"value":"`+value+`"}`, []string(nil)
		switch {
		case n == 5:
			key, value = fmt.Sprintf("refused%d/w%d", life, writer), "refused-"+value
			body = `{"value":"` + value + `"}`
		case n%7 == 3:
			method, value, body = http.MethodDelete, "", ""
		case n%11 == 0 && life%3 != 0: // upstream is up
			headers = []string{"Prefer", "wait=1"}
		}
		status, header, err := c.ask(method, "/memory/"+key, body, headers...)
		if err != nil || status != http.StatusOK && status != http.StatusNotFound {
			return
		}
		if status == http.StatusNotFound {
			continue // nothing to delete
		}
		_, number, _ := strings.Cut(header.Get("Botwired-Write"), "seq=")
		a := acknowledgement{key: key, value: value}
		if _, err := fmt.Sscan(number, &a.seq); err != nil {
			c.t.Errorf("%s of %s: Botwired-Write is %q", method, key, header.Get("Botwired-Write"))
			return
		}
		b.mu.Lock()
		b.acked = append(b.acked, a)
		b.mu.Unlock()
	}
}

func (b *receiptsBook) upTo(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if got := len(b.acked); got < n {
			return fmt.Errorf("%d writes of %d were acknowledged", got, n)
		}
		return nil
	})
}

func (c *child) receipt(seq uint64) (r processReceipt, err error) {
	status, _, text, err := c.exchange(http.MethodGet, fmt.Sprint("/_botwired/receipts/", seq), nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the receipt of write %d: %d %s", seq, status, text)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	return r, err
}

// check compares the receipts of all acknowledged writes with what upstream did, with each other, and
// with earlier receipts. It returns how many are pending.
func (b *receiptsBook) check(t *testing.T, c *child) (pending int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.acked {
		if before, ok := b.ended[a.seq]; ok && before.Seq%8 != 0 { // some are read again
			continue
		}
		r, err := c.receipt(a.seq)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := b.ended[a.seq]; ok && before != r {
			t.Errorf("%+v has become %+v", before, r)
		}
		if r.Seq != a.seq || r.Namespace+"/"+r.Key != a.key || (r.Op == "delete") != (a.value == "") {
			t.Errorf("%+v has the receipt %+v", a, r)
		}
		refused := strings.HasPrefix(a.value, "refused")
		switch {
		case r.State == "pending":
			pending++
			continue
		case r.State == "settled" && !refused && (a.value == "" || b.applied[a.value]):
		case r.State == "dead" && refused && strings.Contains(r.Reason, "too large"):
		case r.State == "superseded" && r.By > a.seq:
			by, err := c.receipt(r.By)
			if err != nil || by.Namespace != r.Namespace || by.Key != r.Key {
				t.Errorf("%+v is superseded by %+v, %v", r, by, err)
			}
		default:
			t.Errorf("%+v has the receipt %+v, and upstream has taken it: %v", a, r, b.applied[a.value])
		}
		b.ended[a.seq] = r
	}
	return pending
}

// chainsEnd follows the superseded writes: each chain ends at a write that is settled or dead.
func (b *receiptsBook) chainsEnd(t *testing.T, c *child) (states map[string]int) {
	t.Helper()
	states = make(map[string]int)
	for _, a := range b.acked {
		states[b.ended[a.seq].State]++
		r, err := c.receipt(a.seq)
		for err == nil && r.State == "superseded" {
			r, err = c.receipt(r.By)
		}
		if err != nil || r.State != "settled" && r.State != "dead" {
			t.Fatalf("the last after write %d is %+v, %v", a.seq, r, err)
		}
	}
	return states
}

// Every acknowledged write has a correct receipt, through 20 kills.
func testReceiptsThroughKills(t *testing.T, program string) {
	b := &receiptsBook{applied: make(map[string]bool), ended: make(map[uint64]processReceipt), namespaces: []string{"receipts0", "receipts1"}}
	for life := range 20 {
		b.namespaces = append(b.namespaces, fmt.Sprint("refused", life))
	}
	service, dir, address := newMemoryService(t), t.TempDir(), freeAddress(t)
	service.handler = b.recorded(service.handler)
	for life := range 20 {
		if life%3 != 0 {
			service.up()
		}
		c := startChild(t, program, dir, address, service.url(), "--flush-linger", "5ms")
		b.check(t, c)
		ctx, stop := context.WithCancel(t.Context())
		before := len(b.acked)
		for writer := range 6 {
			b.wg.Go(func() { b.write(ctx, c, life, writer) })
		}
		b.upTo(t, before+120)
		c.kill() // while requests are in progress
		stop()
		b.wg.Wait()
		service.down()
	}
	service.up()
	c := startChild(t, program, dir, address, service.url(), "--flush-linger", "5ms")
	wantNothingPending(t, c)
	if pending := b.check(t, c); pending > 0 {
		t.Errorf("%d receipts are pending when no write is", pending)
	}
	states := b.chainsEnd(t, c)
	if states["settled"] == 0 || states["superseded"] == 0 || states["dead"] == 0 {
		t.Errorf("not all states were seen: %v", states)
	}
	t.Logf("%d acknowledged writes: %v", len(b.acked), states)
}
