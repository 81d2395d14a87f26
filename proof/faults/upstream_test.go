//go:build faults && linux

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/selfhost"
)

// fakeUpstream is BotWire's memory service on loopback. It has the same address when it
// comes back after it was down.
type fakeUpstream struct {
	address string
	service http.Handler
	// delay is the time of a request on its way, in nanoseconds, before the service
	// carries it out. The service carries out every request that has arrived, even if
	// the client has gone.
	delay   atomic.Int64
	quick   atomic.Bool  // it delays writes only
	arrived atomic.Int64 // the number of writes that have arrived

	mu      sync.Mutex
	server  *http.Server
	applied []applied // all writes, in the order in which the service carried them out

	under sync.WaitGroup // requests in flight
}

type applied struct{ key, value string }

// upstreams counts the fakes.
var upstreams atomic.Int32

func newUpstream(t *testing.T) *fakeUpstream {
	t.Helper()
	service, err := selfhost.Open(t.Context(), selfhost.Options{Path: filepath.Join(fastDir(t), "upstream.db")})
	if err != nil {
		t.Fatal(err)
	}
	u := &fakeUpstream{service: service.Handler()}
	t.Cleanup(func() {
		u.down(t)
		u.under.Wait()
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	// It has an address of its own: while it is down, no other test may get its port
	// and take its writes.
	u.address = fmt.Sprintf("127.1.0.%d:0", upstreams.Add(1))
	u.up(t)
	return u
}

func (u *fakeUpstream) url() string { return "http://" + u.address }

// up begins to listen.
func (u *fakeUpstream) up(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", u.address)
	if err != nil {
		t.Fatal(err)
	}
	u.address = listener.Addr().String()
	server := &http.Server{Handler: u, ReadHeaderTimeout: time.Minute}
	u.mu.Lock()
	u.server = server
	u.mu.Unlock()
	u.under.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// down refuses connections and cuts the open ones.
func (u *fakeUpstream) down(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	server := u.server
	u.server = nil
	u.mu.Unlock()
	if server == nil {
		return
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

func (u *fakeUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.under.Add(1)
	defer u.under.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has not sent the whole request
	}
	write := r.Method == http.MethodPut || r.Method == http.MethodDelete
	if write {
		u.arrived.Add(1)
	}
	if write || !u.quick.Load() {
		time.Sleep(time.Duration(u.delay.Load()))
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	if write {
		u.apply(answer, r, body)
	} else {
		u.service.ServeHTTP(answer, r)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the client may have gone
}

// apply carries out one write after the other, and records their order.
func (u *fakeUpstream) apply(answer *httptest.ResponseRecorder, r *http.Request, body []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.service.ServeHTTP(answer, r)
	var doc struct{ Value string }
	_ = json.Unmarshal(body, &doc) // a DELETE has none
	key := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if answer.Code == http.StatusOK {
		u.applied = append(u.applied, applied{key, doc.Value})
	}
}

func (u *fakeUpstream) history() []applied {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]applied(nil), u.applied...)
}

// inOrder fails the test if an old write ever took the place of a newer one.
func (u *fakeUpstream) inOrder(t *testing.T) {
	t.Helper()
	newest := make(map[string]int)
	for _, a := range u.history() {
		n, err := number(a.key, a.value)
		if err != nil {
			t.Fatal(err)
		}
		if n < newest[a.key] {
			t.Errorf("upstream: write %d to %s took the place of write %d", n, a.key, newest[a.key])
		}
		newest[a.key] = n
	}
}
