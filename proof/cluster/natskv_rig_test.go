package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// engineOf opens an engine over servers, and closes it at the test's end.
func engineOf(t *testing.T, host string, urls []string, set ...func(*natskv.Options)) *natskv.Engine {
	t.Helper()
	opts := natskv.Options{
		Servers: urls, Bucket: "memory", Replicas: 1, History: 8, Create: true,
		Timeout: 5 * time.Second, Host: host, Name: "test", Marks: &marks{}, Logger: slog.New(slog.DiscardHandler),
	}
	for _, change := range set {
		change(&opts)
	}
	e, err := natskv.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// admin is a client of nats.go's own, beside the engine.
func admin(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func entry(key string) journal.ID { return journal.ID{Namespace: "ns", Key: key} }

// putting is a proposal to put a value over a version.
func putting(key, value string, at float64, seq uint64, over upstream.Version) upstream.Proposal {
	return upstream.Proposal{
		ID: entry(key), Op: journal.Put, Value: value, ListBytes: len(value), WrittenAt: at,
		Writer: upstream.Writer{Host: "h1", Seq: seq}, Over: over,
	}
}

// wrote puts a value over the entry's last version.
func wrote(ctx context.Context, e *natskv.Engine, key, value string) error {
	over, err := e.Get(ctx, entry(key))
	if err != nil {
		return err
	}
	_, err = e.Swap(ctx, putting(key, value, max(float64(time.Now().UnixMicro())/1e6, over.WrittenAt+1), 0, over))
	return err
}

// swapped carries out a proposal that has to succeed.
func swapped(t *testing.T, e *natskv.Engine, p upstream.Proposal) upstream.Version {
	t.Helper()
	v, err := e.Swap(t.Context(), p)
	if err != nil {
		t.Fatalf("swap %s: %v", p.Key, err)
	}
	return v
}

// failed is the failure that a request must have met.
func failed(t *testing.T, err error, verdict upstream.Verdict, says string) *upstream.Error {
	t.Helper()
	var failure *upstream.Error
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want a failure", err)
	}
	if failure.Verdict != verdict || !strings.Contains(failure.Reason, says) {
		t.Fatalf("got %v: %s; want %v: …%s…", failure.Verdict, failure.Reason, verdict, says)
	}
	return failure
}

// until asks again until the answer is good; the test's own end bounds it.
func until(t *testing.T, good func() bool) {
	t.Helper()
	for !good() {
		select {
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// deaf is a network that loses what the server says, while it is told to, and then breaks.
type deaf struct {
	listener net.Listener
	to       string
	work     sync.WaitGroup
	losing   atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func newDeaf(t *testing.T, to string) *deaf {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{listener: listener, to: to}
	d.work.Go(d.accept)
	t.Cleanup(func() {
		listener.Close()
		d.breaks()
		d.work.Wait()
	})
	return d
}

func (d *deaf) url() string { return "nats://" + d.listener.Addr().String() }

func (d *deaf) accept() {
	for {
		from, err := d.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", d.to)
		if err != nil {
			from.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, from, to)
		d.mu.Unlock()
		d.work.Go(func() { d.copy(to, from, false) })
		d.work.Go(func() { d.copy(from, to, true) })
	}
}

func (d *deaf) copy(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if answers && d.losing.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// breaks ends all connections.
func (d *deaf) breaks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		conn.Close()
	}
	d.conns = nil
}
