package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// distance puts a memory service far away: each answer takes its time, a day has only so many
// writes, and the service may be gone for a while. Requests that come then hang until it is back,
// and are cut off: nothing of them is carried out.
type distance struct {
	address string
	latency time.Duration
	quota   int
	service *httputil.ReverseProxy
	server  *http.Server
	served  chan error

	mu      sync.Mutex    // guards the fields below
	gone    chan struct{} // closed when the service is back; nil if it is there
	carried []carried
}

// carried is a write that the service has carried out.
type carried struct {
	at       time.Time
	messages int
	bytes    int // of the request's body
}

// openDistance puts a service at a distance of latency. It takes quota writes a day.
func openDistance(ctx context.Context, service string, latency time.Duration, quota int) (*distance, error) {
	listener, err := listenLocally(ctx)
	if err != nil {
		return nil, err
	}
	d := &distance{
		address: listener.Addr().String(), latency: latency, quota: quota, served: make(chan error, 1),
		service: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: service}),
	}
	d.service.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: time.Minute}
	go func() { d.served <- d.server.Serve(listener) }()
	return d, nil
}

func (d *distance) close() error {
	err := d.server.Close()
	if served := <-d.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	d.service.Transport.(*http.Transport).CloseIdleConnections()
	return err
}

// finish lets the requests in flight end, and takes no more.
func (d *distance) finish(ctx context.Context) error { return d.server.Shutdown(ctx) }

// leave makes the service be gone for some time.
func (d *distance) leave(lasts time.Duration) {
	back := make(chan struct{})
	d.mu.Lock()
	d.gone = back
	d.mu.Unlock()
	time.AfterFunc(lasts, func() {
		d.mu.Lock()
		d.gone = nil
		d.mu.Unlock()
		close(back)
	})
}

func (d *distance) away() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone
}

func (d *distance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has left
	}
	select {
	case <-time.After(d.latency):
	case <-r.Context().Done():
		return
	}
	if back := d.away(); back != nil {
		select {
		case <-back:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	messages := 0
	if isWrite(r) {
		if value, refusal := wire.DecodePut(r.Header, body); refusal == nil {
			messages = messagesIn(value)
		}
		if !d.spend() {
			w.Header().Set("Retry-After", "3600")
			wire.Detail(http.StatusTooManyRequests, "Rate limit exceeded").Write(w)
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.service.ServeHTTP(w, r)
	if isWrite(r) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.carried = append(d.carried, carried{time.Now(), messages, len(body)})
	}
}

// spend reports whether the day has a write left.
func (d *distance) spend() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.carried) < d.quota
}

func (d *distance) arrivals() []carried {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]carried(nil), d.carried...)
}

// most is how many messages the service has.
func (d *distance) most() (messages int) {
	for _, c := range d.arrivals() {
		messages = max(messages, c.messages)
	}
	return messages
}
