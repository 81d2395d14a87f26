package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/sse"
)

// crowdWatch is what goes on around the measured requests.
type crowdWatch struct {
	settings *crowdSettings
	address  string

	begun, acknowledged atomic.Int64 // writes
	puts                []time.Duration
}

// write writes a new entry at each tick until ctx ends. A write that has begun is finished.
func (w *crowdWatch) write(ctx context.Context, feed *crowdFeed) error {
	ticks := time.NewTicker(time.Second / time.Duration(w.settings.Writes))
	defer ticks.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		key := fmt.Sprintf("live-%d", n)
		w.begun.Add(1)
		feed.expect(key)
		began := time.Now()
		if err := put(context.WithoutCancel(ctx), w.address, crowdNamespace(n%w.settings.Namespaces), key); err != nil {
			return err
		}
		w.puts = append(w.puts, time.Since(began))
		w.acknowledged.Add(1)
	}
}

// put writes an entry, and returns once it is acknowledged.
func put(ctx context.Context, address, namespace, key string) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	url := "http://" + address + "/memory/" + namespace + "/" + key
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(`{"value":"live"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	_, err = bodyOf(req)
	return err
}

// crowdFeed follows a daemon's events, and takes the time until the event of a write has come.
type crowdFeed struct {
	leave func()
	ended chan struct{}

	mu      sync.Mutex
	waiting map[string]time.Time // by key, since when
	took    []time.Duration
	all     chan struct{} // closed once nothing is waited for; nil while nobody asks
	err     error         // why the stream has ended, or is of no use
}

// mostEvent bounds one event of the stream, in bytes.
const mostEvent = 64 << 10

// followCrowd returns once the daemon sends its events.
func followCrowd(ctx context.Context, address string) (*crowdFeed, error) {
	following, leave := context.WithCancel(ctx)
	events, err := open(following, http.DefaultClient, address, "/_botwired/events")
	if err != nil {
		leave()
		return nil, err
	}
	f := &crowdFeed{leave: leave, ended: make(chan struct{}), waiting: make(map[string]time.Time)}
	go func() {
		defer close(f.ended)
		defer events.Close()
		f.end(f.read(sse.NewReader(events, mostEvent)))
	}()
	return f, nil
}

func (f *crowdFeed) close() {
	f.leave()
	<-f.ended
}

func (f *crowdFeed) read(from *sse.Reader) error {
	for {
		e, err := from.Next()
		if err != nil {
			return fmt.Errorf("the events have ended: %w", err)
		}
		switch e.Name {
		case "reset":
			return fmt.Errorf("the stream did not keep up: %s", e.Data)
		case "pending":
			var data struct{ Key string }
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return err
			}
			f.came(data.Key)
		}
	}
}

// expect notes that a write begins.
func (f *crowdFeed) expect(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[key] = time.Now()
}

func (f *crowdFeed) came(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, expected := f.waiting[key]
	if !expected {
		return
	}
	delete(f.waiting, key)
	f.took = append(f.took, time.Since(since))
	if f.all != nil && len(f.waiting) == 0 {
		close(f.all)
		f.all = nil
	}
}

func (f *crowdFeed) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// complete waits until the event of every write has come.
func (f *crowdFeed) complete(ctx context.Context, within time.Duration) error {
	all := make(chan struct{})
	f.mu.Lock()
	if len(f.waiting) == 0 {
		close(all)
	} else {
		f.all = all
	}
	f.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-all:
		return nil
	case <-f.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(fmt.Errorf("%d events have not come", len(f.waiting)), f.err, ctx.Err())
}

func (f *crowdFeed) delays() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.took
}
