package selfhost_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/wire"
)

// cluster is a store elsewhere, which fails as it is told.
type cluster struct {
	err    error
	values map[string]string
	closed bool
}

func (c *cluster) Get(_ context.Context, ns, key string) (wire.Entry, bool, error) {
	value, ok := c.values[ns+"/"+key]
	return wire.Entry{Namespace: ns, Key: key, Value: value, CreatedAt: 1, UpdatedAt: 2}, ok, c.err
}

func (c *cluster) Set(_ context.Context, ns, key, value string) error {
	if c.err == nil {
		c.values[ns+"/"+key] = value
	}
	return c.err
}

func (c *cluster) Remove(_ context.Context, ns, key string) (bool, error) {
	_, ok := c.values[ns+"/"+key]
	delete(c.values, ns+"/"+key)
	return ok, c.err
}

func (c *cluster) List(_ context.Context, ns string, _ int) (wire.Listing, error) {
	return wire.Listing{Namespace: ns, Items: []wire.Item{{Key: "k", Bytes: 1, UpdatedAt: 2}}}, c.err
}

func (c *cluster) Stats(context.Context) (entries, namespaces, bytes int64, err error) {
	return int64(len(c.values)), 1, 1, c.err
}

func (c *cluster) Close() error { c.closed = true; return nil }

// away is the error of a cluster that cannot be asked now.
type away struct{ really bool }

func (away) Error() string       { return "no server of nats://127.0.0.1:4222 answers" }
func (a away) Unavailable() bool { return a.really }

// A store elsewhere is served in the words of BotWire.
func TestStoreElsewhere(t *testing.T) {
	c := &cluster{values: map[string]string{}}
	s := selfhost.New(c, selfhost.Options{})
	expect(t, ask(s, "PUT", "/memory/a/k", `{"value":"v"}`), 200, `{"namespace":"a","key":"k","stored":true,"bytes":1}`)
	expect(t, ask(s, "GET", "/memory/a/k", ""), 200, `{"namespace":"a","key":"k","value":"v","created_at":1.0,"updated_at":2.0}`)
	expect(t, ask(s, "GET", "/memory/a", ""), 200, `{"namespace":"a","count":1,"keys":[{"key":"k","bytes":1,"updated_at":2.0}]}`)
	expect(t, ask(s, "GET", "/health", ""), 200, `{"status":"ok","payments":"disabled","network":"eip155:84532"}`)
	expect(t, ask(s, "GET", "/stats/memory", ""), 200, `{"total_entries":1,"total_namespaces":1,"total_bytes":1}`)
	expect(t, ask(s, "DELETE", "/memory/a/k", ""), 200, `{"deleted":true,"namespace":"a","key":"k"}`)
	expect(t, ask(s, "DELETE", "/memory/a/k", ""), 404, `{"detail":"Key not found: a/k"}`)
	if err := s.Close(); err != nil || !c.closed {
		t.Errorf("closed %v, %v", c.closed, err)
	}
}

// While the store cannot be asked, every request is told to come again, the one of a load balancer
// too. The log has one line, without the caller's value.
func TestStoreIsAway(t *testing.T) {
	var log bytes.Buffer
	c := &cluster{values: map[string]string{}, err: errors.Join(away{true})}
	s := selfhost.New(c, selfhost.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, request := range [][3]string{
		{"PUT", "/memory/a/k", `{"value":"secret"}`}, {"GET", "/memory/a/k"}, {"DELETE", "/memory/a/k"},
		{"GET", "/memory/a"}, {"GET", "/health"}, {"GET", "/stats/memory"},
	} {
		w := ask(s, request[0], request[1], request[2])
		expect(t, w, 503, `{"detail":"The memory is unavailable."}`)
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("%s %s: Retry-After is %q", request[0], request[1], got)
		}
	}
	if w := ask(s, "PUT", "/memory/a/k", `{`); w.Code != 422 {
		t.Errorf("a request that no store can take: %d %s", w.Code, w.Body)
	}
	if got := strings.Count(log.String(), "unavailable"); got != 1 || strings.Contains(log.String(), "secret") {
		t.Errorf("%d lines: %s", got, &log)
	}
	c.err = nil
	expect(t, ask(s, "GET", "/health", ""), 200, `{"status":"ok","payments":"disabled","network":"eip155:84532"}`)
	if !strings.Contains(log.String(), "answers again") {
		t.Errorf("log: %s", &log)
	}
	for _, err := range []error{errors.New("broken"), away{false}} {
		c.err = err
		w := ask(s, "GET", "/memory/a/k", "")
		expect(t, w, 500, `{"detail":"The database failed."}`)
		if w.Header().Get("Retry-After") != "" {
			t.Error("a failure of another kind has Retry-After")
		}
	}
}
