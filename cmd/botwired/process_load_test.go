package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// writers write to their own keys until the test stops them or the daemon is gone. acknowledged holds
// the newest version of each key that got a 200. A write without an answer may be stored too.
type writers struct {
	mu           sync.Mutex
	acknowledged map[string]int
	attempted    map[string]int
	wg           sync.WaitGroup
}

func newWriters() *writers {
	return &writers{acknowledged: make(map[string]int), attempted: make(map[string]int)}
}

// run starts n writers, each with a few keys, until ctx ends or a write fails.
func (ws *writers) run(ctx context.Context, c *child, n int) {
	for i := range n {
		ws.wg.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				key := fmt.Sprintf("load%d/k%d", i%3, i*10+round%10)
				ws.mu.Lock()
				ws.attempted[key]++
				version := ws.attempted[key]
				ws.mu.Unlock()
				if err := c.put(key, strconv.Itoa(version)); err != nil {
					return
				}
				ws.mu.Lock()
				ws.acknowledged[key] = version
				ws.mu.Unlock()
			}
		})
	}
}

func (ws *writers) total() (n int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, version := range ws.acknowledged {
		n += version
	}
	return n
}

// check compares the entries with the acknowledgements: each key has its newest acknowledged version,
// or a later attempted one.
func (ws *writers) check(value func(string) (string, error)) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var errs []error
	for key, least := range ws.acknowledged {
		text, err := value(key)
		version, parseErr := strconv.Atoi(text)
		if err = errors.Join(err, parseErr); err != nil || version < least || version > ws.attempted[key] {
			errs = append(errs, fmt.Errorf("%s: version %q, acknowledged was %d: %w", key, text, least, err))
		}
	}
	return errors.Join(errs...)
}

// upTo waits until the daemon has acknowledged n writes.
func (ws *writers) upTo(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() error {
		if got := ws.total(); got < n {
			return fmt.Errorf("%d writes of %d were acknowledged", got, n)
		}
		return nil
	})
}

func wantNothingPending(t *testing.T, c *child) {
	t.Helper()
	eventually(t, func() error {
		n, err := c.pending()
		if err == nil && n > 0 {
			err = fmt.Errorf("%d writes are pending", n)
		}
		return err
	})
}

// Contract 1, 13 and 18.
func testKilledUnderLoad(t *testing.T, program string) {
	service, dir, address := newMemoryService(t), t.TempDir(), freeAddress(t)
	ws := newWriters()
	for range 20 {
		c := startChild(t, program, dir, address, service.url())
		if err := ws.check(c.value); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		before := ws.total()
		ws.run(ctx, c, 8)
		ws.upTo(t, before+100)
		c.kill() // while requests are in progress
		stop()
		ws.wg.Wait()
	}
	c := startChild(t, program, dir, address, service.url())
	if err := ws.check(c.value); err != nil {
		t.Fatal(err)
	}
	held := make(map[string]string)
	for key := range maps.Keys(ws.acknowledged) {
		held[key], _ = c.value(key) // just checked
	}
	service.up()
	wantNothingPending(t, c)
	for key, want := range held {
		if got, err := service.value(key); err != nil || got != want {
			t.Errorf("upstream holds %q at %s, want %q (%v)", got, key, want, err)
		}
	}
	t.Logf("%d acknowledged writes to %d keys, 20 kills", ws.total(), len(held))
}

// linger is flush.linger's default.
const linger = 100 * time.Millisecond

func testCoalesces(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	began, last, rests := time.Now(), time.Now(), 0
	for i := range 1000 {
		if err := c.put("n/k", strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		if time.Since(last) > linger/2 {
			rests++ // the machine was busy: the previous write may have been sent
		}
		last = time.Now()
	}
	took := time.Since(began)
	wantNothingPending(t, c)
	if got, err := service.value("n/k"); err != nil || got != "999" {
		t.Errorf("upstream holds %q, %v", got, err)
	}
	// One a second while writes come, as lingerCap allows, and the last one.
	if got, most := service.putsOf("n/k"), 2+int(took/time.Second)*2+rests; got > most {
		t.Errorf("%d writes reached upstream in %s with %d rests, want at most %d", got, took, rests, most)
	}
	t.Logf("1,000 writes in %s: %d reached upstream", took, service.putsOf("n/k"))
}

func testWritesWait(t *testing.T, program string) {
	const keys, writes = 500, 10_000
	service, dir, address := newMemoryService(t), t.TempDir(), freeAddress(t)
	c := startChild(t, program, dir, address, service.url(), impatient)
	var wg sync.WaitGroup
	for writer := range 10 {
		wg.Go(func() {
			for i := writer; i < writes; i += 10 {
				if err := c.put(fmt.Sprint("n/k", i%keys), strconv.Itoa(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	check := func(value func(string) (string, error)) {
		t.Helper()
		for i := range keys {
			want := strconv.Itoa(writes - keys + i)
			if got, err := value(fmt.Sprint("n/k", i)); err != nil || got != want {
				t.Fatalf("k%d: %q, want %q (%v)", i, got, want, err)
			}
		}
	}
	check(c.value)
	if n, err := c.pending(); err != nil || n != keys {
		t.Errorf("%d pending, want %d (%v)", n, keys, err)
	}
	wantStatus(t, c, "/memory/n/unknown", 503)
	wantUpstream(t, c, "down", "connection refused", "botwired_upstream_up 0")
	service.up()
	wantNothingPending(t, c)
	wantUpstream(t, c, "up", "", "botwired_upstream_up 1")
	check(service.value)
	total := 0
	service.mu.Lock()
	for _, n := range service.puts {
		total += n
	}
	service.mu.Unlock()
	if total > keys+keys/10 {
		t.Errorf("%d writes reached upstream, want about %d", total, keys)
	}
	t.Logf("10,000 writes to 500 keys: %d reached upstream", total)
}

func wantStatus(t *testing.T, c *child, target string, want int) {
	t.Helper()
	if status, _, err := c.ask(http.MethodGet, target, ""); status != want || err != nil {
		t.Errorf("GET %s: %d (%v), want %d", target, status, err, want)
	}
}

// wantUpstream checks upstream's state in the status and in the metrics.
func wantUpstream(t *testing.T, c *child, state, reason, metric string) {
	t.Helper()
	_, _, status, err := c.exchange(http.MethodGet, "/_botwired/status", nil)
	_, _, metrics, err2 := c.exchange(http.MethodGet, "/_botwired/metrics", nil)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Upstream struct{ State, Reason string }
	}
	if err := json.Unmarshal([]byte(status), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Upstream.State != state || !strings.Contains(doc.Upstream.Reason, reason) || !strings.Contains(metrics, metric+"\n") {
		t.Errorf("upstream: %+v, want %s (%s) and %s in the metrics", doc.Upstream, state, reason, metric)
	}
}

func testPreferWait(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--flush-linger", "1h", "--cache-absent-for", "1m")
	want := func(method, body, prefer, state, applied string) {
		t.Helper()
		status, header, err := c.ask(method, "/memory/n/k", body, "Prefer", prefer)
		if err != nil || status != http.StatusOK {
			t.Fatalf("%d, %v", status, err)
		}
		if got := header.Get("Botwired-Write"); !strings.HasPrefix(got, state+"; seq=") {
			t.Errorf("%s with %s: %q, want %s", method, prefer, got, state)
		}
		if got := header.Get("Preference-Applied"); got != applied {
			t.Errorf("applied %q, want %q", got, applied)
		}
	}
	want(http.MethodPut, `{"value":"a"}`, "wait=20", "settled", "wait=20")
	if got, err := service.value("n/k"); err != nil || got != "a" {
		t.Errorf("upstream holds %q, %v", got, err)
	}
	want(http.MethodDelete, "", "wait=20", "settled", "wait=20")
	if _, err := service.value("n/k"); err == nil {
		t.Error("upstream holds what was deleted")
	}
	service.down()
	if status, _, err := c.ask(http.MethodGet, "/memory/n/k", ""); err != nil || status != http.StatusNotFound {
		t.Errorf("what upstream has just deleted is answered %d, %v", status, err)
	}
	want(http.MethodPut, `{"value":"b"}`, "wait=1", "pending", "wait=1")
}

// Contract 22, with upstream up: the daemon flushes everything.
func testTermDrains(t *testing.T, program string) {
	service, ws := newMemoryService(t).up(), newWriters()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--flush-linger", "1h", "--flush-drain-timeout", "1m")
	ws.run(t.Context(), c, 8)
	ws.upTo(t, 200)
	c.signal(syscall.SIGTERM)
	c.wantExit(2*time.Minute, cli.ExitOK)
	ws.wg.Wait()
	if err := ws.check(service.value); err != nil {
		t.Error(err)
	}
	if !strings.Contains(c.stderr.String(), `"pending":0`) {
		t.Errorf("the count is not logged: %s", c.stderr)
	}
}

// Contract 22, with upstream down: the daemon keeps everything.
func testTermKeeps(t *testing.T, program string) {
	service, dir, ws := newMemoryService(t), t.TempDir(), newWriters()
	c := startChild(t, program, dir, freeAddress(t), service.url(), "--flush-drain-timeout", "500ms")
	ws.run(t.Context(), c, 8)
	ws.upTo(t, 200)
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, cli.ExitOK)
	ws.wg.Wait()
	kept, log := 0, c.stderr.String()
	_, stopped, _ := strings.Cut(log, `"stopped"`)
	_, stopped, _ = strings.Cut(stopped, `"pending":`)
	if _, err := fmt.Sscanf(stopped, "%d", &kept); err != nil || kept < len(ws.acknowledged) || kept > len(ws.attempted) {
		t.Errorf("%d keys were acknowledged, %d attempted; the log says that %d are kept (%v): %s", len(ws.acknowledged), len(ws.attempted), kept, err, log)
	}
	if c.put("n/k", "v") == nil {
		t.Error("it still listens")
	}
	again := startChild(t, program, dir, freeAddress(t), service.url())
	if err := ws.check(again.value); err != nil {
		t.Error(err)
	}
}

// Contract 22: the daemon serves while it drains, and answers waiting callers. Only readyz sends new
// callers elsewhere.
func testTermServes(t *testing.T, program string) {
	// An upstream that never answers: the drain takes its full time.
	release := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); upstream.Close() })
	dir := t.TempDir()
	c := startChild(t, program, dir, freeAddress(t), upstream.URL, impatient, "--flush-drain-timeout", "20s")
	if err := c.put("n/before", "v"); err != nil {
		t.Fatal(err)
	}
	waited := make(chan string, 1)
	go func() {
		status, header, err := c.ask(http.MethodPut, "/memory/n/waits", `{"value":"v"}`, "Prefer", "wait=60")
		waited <- fmt.Sprintf("%d %s %v", status, header.Get("Botwired-Write"), err)
	}()
	eventually(t, func() error { // the write is accepted, and waits
		_, err := c.value("n/waits")
		return err
	})
	c.signal(syscall.SIGTERM)
	eventually(t, func() error {
		if status, _, err := c.ask(http.MethodGet, "/_botwired/readyz", ""); err != nil || status != http.StatusServiceUnavailable {
			return fmt.Errorf("readyz: %d, %w", status, err)
		}
		return nil
	})
	if err := c.put("n/meanwhile", "v"); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"n/before", "n/meanwhile"} {
		if got, err := c.value(key); err != nil || got != "v" {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	if status, _, err := c.ask(http.MethodGet, "/_botwired/livez", ""); err != nil || status != http.StatusOK {
		t.Errorf("livez: %d, %v", status, err)
	}
	if got := <-waited; !strings.HasPrefix(got, "200 pending; seq=") {
		t.Errorf("who waits for upstream is answered %s", got)
	}
	c.wantExit(2*time.Minute, cli.ExitOK)
	if !strings.Contains(c.stderr.String(), `"pending":3`) {
		t.Errorf("the log does not say what is kept: %s", c.stderr)
	}
	again := startChild(t, program, dir, freeAddress(t), upstream.URL)
	for _, key := range []string{"n/before", "n/meanwhile", "n/waits"} {
		if got, err := again.value(key); err != nil || got != "v" {
			t.Errorf("after the restart, %s: %q, %v", key, got, err)
		}
	}
}

func testSecondSignal(t *testing.T, program string) {
	// An upstream that never answers: the drain lasts beyond the second signal.
	release := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); upstream.Close() })
	dir, ws := t.TempDir(), newWriters()
	c := startChild(t, program, dir, freeAddress(t), upstream.URL, "--flush-drain-timeout", "10m")
	ws.run(t.Context(), c, 8)
	ws.upTo(t, 200)
	c.signal(syscall.SIGTERM)
	eventually(t, func() error {
		if !strings.Contains(c.stderr.String(), `"stopping"`) {
			return errors.New("the first signal was not heeded")
		}
		return nil
	})
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, terminated)
	ws.wg.Wait()
	again := startChild(t, program, dir, freeAddress(t), upstream.URL)
	if err := ws.check(again.value); err != nil {
		t.Error(err)
	}
}

// A flush that would wait for an hour is answered when the daemon stops, and nothing uses the closed
// journal.
func testFlushAtShutdown(t *testing.T, program string) {
	service := newMemoryService(t)
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--flush-drain-timeout", "2s", "--flush-linger", "1h", "--log-level", "debug")
	if err := c.put("n/k", "v"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		status, _, err := c.ask(http.MethodPost, "/_botwired/flush?timeout=1h", "")
		if err == nil && status != http.StatusGatewayTimeout {
			err = fmt.Errorf("answered %d", status)
		}
		answered <- err
	}()
	eventually(t, func() error { // without the flush, nothing would be sent for an hour
		_, _, text, err := c.exchange(http.MethodGet, "/_botwired/pending", nil)
		if err == nil && (!strings.Contains(text, `"attempts":`) || strings.Contains(text, `"attempts":0`)) {
			err = fmt.Errorf("the flush is not under way: %s", text)
		}
		return err
	})
	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, cli.ExitOK)
	if err := <-answered; err != nil {
		t.Errorf("who waits for a flush is not told what is left: %v", err)
	}
	if log := c.stderr.String(); strings.Contains(log, "panic") {
		t.Error(log)
	}
}
