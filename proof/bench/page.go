package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/tasks"
)

// The page asks for as much, and as often (proxy/dashboard/assets/daemon.js).
const (
	pageStatus  = "/_botwired/status?namespaces=100"
	pageHistory = "/_botwired/history"
	pagePending = "/_botwired/pending?limit=200"

	pageStatusEvery  = time.Second
	pageHistoryEvery = 10 * time.Second
	// pageRest is how many times as long as an answer took the page waits at least.
	pageRest = 10
	// pageHistoryFirst is when openPage asks for the history first: so that each cell has its share of
	// that, and more.
	pageHistoryFirst = time.Second
)

// openedPage asks a daemon for what a page that is open asks for.
type openedPage struct {
	address string
	client  *http.Client
	work    sync.WaitGroup
	reset   chan struct{} // the page has to read the pending writes anew

	mu    sync.Mutex
	err   error // the first
	bytes int64 // of events
}

// openPage follows a daemon's events while a cell is measured, and asks for its status, its history
// and, where it cannot follow, its pending writes, at the same intervals as the page. It fails the
// cell if an answer is no success, or if no event has come by its end.
func openPage(ctx context.Context, on *subject, wantsEvents bool) (*subject, error) {
	ctx, leave := context.WithCancel(ctx)
	transport := &http.Transport{}
	p := &openedPage{address: on.address, client: &http.Client{Transport: transport}, reset: make(chan struct{}, 1)}
	events, err := p.get(ctx, "/_botwired/events")
	if err != nil {
		leave()
		return nil, err
	}
	p.reset <- struct{}{}
	p.work.Go(func() { p.follow(events) })
	p.work.Go(func() { p.repeat(ctx, pageStatus, 0, pageStatusEvery) })
	p.work.Go(func() { p.repeat(ctx, pageHistory, pageHistoryFirst, pageHistoryEvery) })
	p.work.Go(func() { p.readAnew(ctx) })
	check := on.done
	on.done = func(ctx context.Context) error {
		leave()
		p.work.Wait()
		transport.CloseIdleConnections()
		err := p.err
		if wantsEvents && p.bytes < leastEvents {
			err = errors.Join(err, fmt.Errorf("the page has received %d bytes of events", p.bytes))
		}
		if check != nil {
			err = errors.Join(err, check(ctx))
		}
		return err
	}
	return on, nil
}

func (p *openedPage) get(ctx context.Context, path string) (io.ReadCloser, error) {
	return open(ctx, p.client, p.address, path)
}

// open returns the body of a 200, as it comes.
func open(ctx context.Context, client *http.Client, address, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: HTTP %d", path, resp.StatusCode), resp.Body.Close())
	}
	return resp.Body, nil
}

// read makes one request, and returns how long the answer took.
func (p *openedPage) read(ctx context.Context, path string) time.Duration {
	began := time.Now()
	body, err := p.get(ctx, path)
	if err == nil {
		_, err = io.Copy(io.Discard, body)
		err = errors.Join(err, body.Close())
	}
	if err != nil && ctx.Err() == nil { // else the page was closed
		p.mu.Lock()
		p.err = errors.Join(p.err, err)
		p.mu.Unlock()
	}
	return time.Since(began)
}

// repeat makes a request again and again until the page is closed.
func (p *openedPage) repeat(ctx context.Context, path string, first, every time.Duration) {
	for wait := first; tasks.Sleep(ctx, wait) == nil; {
		wait = max(every, pageRest*p.read(ctx, path))
	}
}

// readAnew reads the pending writes at first, and after each reset.
func (p *openedPage) readAnew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.reset:
		}
		if tasks.Sleep(ctx, pageRest*p.read(ctx, pagePending)) != nil {
			return
		}
	}
}

// follow reads the events until the page is closed.
func (p *openedPage) follow(events io.ReadCloser) {
	defer events.Close()
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		p.bytes += int64(len(lines.Bytes())) + 1
		if bytes.Equal(lines.Bytes(), []byte("event: reset")) {
			select {
			case p.reset <- struct{}{}:
			default: // it is asked for already
			}
		}
	}
}

// leastEvents is less than any event takes, with what a stream begins with.
const leastEvents = 100

// paged is a contender whose page is open.
func paged(
	plain func(context.Context, *stage) (*subject, error), wantsEvents bool,
) func(context.Context, *stage) (*subject, error) {
	return func(ctx context.Context, s *stage) (*subject, error) {
		on, err := plain(ctx, s)
		if err != nil {
			return nil, err
		}
		return openPage(ctx, on, wantsEvents)
	}
}
