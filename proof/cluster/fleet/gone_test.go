package fleet

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/proof/cluster"
)

// A bucket is gone, and a person restores without one: a daemon that may make no bucket waits for one, a daemon
// without a connection waits for the servers and makes it then, and both give it all their copies. Before it is
// known that the bucket is gone, there is nothing to restore, and the daemon says so.
func TestRestoreWithoutABucket(t *testing.T) {
	const entries, bucket = 20, "gone"
	server := cluster.RunServer(t)
	flags := append(OverBucket(bucket), "--upstream-nats-replicas", "1", "--upstream-timeout", "2s")
	a := daemon(t, server.URL(), flags...)
	for i := range entries {
		if _, err := a.Put(t.Context(), kept(i), "before"); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	b := daemon(t, server.URL(), append(flags, "--upstream-nats-create=false")...)
	for i := range entries {
		awaited(t, b, kept(i), "before")
	}

	server.Stop()
	awaitStatus(t, a, "upstream is gone", func(s *api.Status) bool { return !s.Upstream.Watch.CaughtUp })
	if err := a.Restore(t.Context()); !api.IsRefused(err, http.StatusServiceUnavailable) || !strings.Contains(err.Error(), "try again") {
		t.Errorf("a restoration without a connection: %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	js := streamsOf(t, server.URL())
	if err := js.DeleteStream(t.Context(), "KV_"+bucket); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Daemon{a, b} {
		awaitStatus(t, d, "the loss is noticed", func(s *api.Status) bool { return strings.Contains(s.Upstream.Watch.Lost, "is gone") })
	}

	if err := b.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, b, "it wants a bucket", func(s *api.Status) bool {
		return strings.Contains(s.Summary.Text, "make it") && s.Pending > 0
	})
	awaited(t, b, kept(1), "before")
	if _, err := js.Stream(t.Context(), "KV_"+bucket); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket was made: %v", err)
	}
	server.Stop()
	awaitStatus(t, a, "upstream is gone", func(s *api.Status) bool { return s.Upstream.Watch.Server == "" })
	if err := a.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Daemon{a, b} {
		awaitStatus(t, d, "upstream has all entries again", func(s *api.Status) bool {
			return s.Upstream.Watch.Lost == "" && s.Upstream.Watch.CaughtUp && s.Pending == 0 && len(Losses(s)) == 0
		})
	}
	all, err := ReadBucket(t.Context(), server.URL(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if list := all[kept(i)]; len(list) == 0 || list[len(list)-1].Value != "before" {
			t.Errorf("the bucket has %+v of %v", list, kept(i))
		}
	}
}

// A bucket whose settings are mended gets the writes that waited for that within moments, and nothing speaks of them any
// more. The time is far below the half a minute that a paused namespace waits at most.
func TestAMendedBucketIsUsedAtOnce(t *testing.T) {
	const bucket = "mended"
	server := cluster.RunServer(t)
	d := daemon(t, server.URL(), append(OverBucket(bucket), "--upstream-nats-replicas", "1")...)
	awaitStatus(t, d, "the bucket is watched", func(s *api.Status) bool { return s.Upstream.Watch.CaughtUp })
	js := streamsOf(t, server.URL())
	set := func(direct bool) {
		t.Helper()
		stream, err := js.Stream(t.Context(), "KV_"+bucket)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.AllowDirect = direct
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	set(true)
	awaitStatus(t, d, "the bucket is refused", func(s *api.Status) bool { return strings.Contains(s.Summary.Text, "allow_direct") })
	for i := range 4 {
		if _, err := d.Put(t.Context(), kept(i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	awaitStatus(t, d, "the namespace is paused", func(s *api.Status) bool {
		return len(s.Namespaces) == 1 && strings.Contains(s.Namespaces[0].Paused, "allow_direct")
	})
	began := time.Now()
	set(false)
	awaitStatus(t, d, "the writes are sent", func(s *api.Status) bool { return s.Pending == 0 })
	if took := time.Since(began); took > 12*time.Second {
		t.Errorf("the writes were sent after %v", took)
	}
	awaitStatus(t, d, "all is well", func(s *api.Status) bool { return s.Summary.Level == api.LevelOK })
}

// streamsOf returns a client of the servers' streams, which ends with the test.
func streamsOf(t *testing.T, url string) jetstream.JetStream {
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

// Without a majority of the servers, the status and doctor say what to do.
func TestWithoutAMajority(t *testing.T) {
	s, err := cluster.Start(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := s.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "BOTWIRED_UPSTREAM_URL="+c.URL())
	d, _ := h.serve(t)
	awaitStatus(t, d, "the bucket is watched", func(s *api.Status) bool { return s.Upstream.Watch.CaughtUp })
	for _, i := range []int{0, 1} {
		if err := s.All[i].Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Put(t.Context(), kept(0), "v"); err != nil {
		t.Fatal(err)
	}
	awaitStatus(t, d, "the status says what to do", func(s *api.Status) bool {
		return s.Upstream.State == "down" && strings.Contains(s.Upstream.Reason+s.Summary.Text, "start another server")
	})
	if text, _ := h.run(t, "doctor"); !strings.Contains(text, "more than half of them") {
		t.Errorf("doctor says:\n%s", text)
	}
}

// doctor knows without a daemon that a bucket was there before: the daemon will not make it again.
func TestDoctorOfALostBucket(t *testing.T) {
	server := cluster.RunServer(t)
	h := newHost(t, "BOTWIRED_UPSTREAM_URL="+server.URL(), "BOTWIRED_UPSTREAM_NATS_REPLICAS=1")
	d, end := h.serve(t)
	awaitStatus(t, d, "the bucket is watched", func(s *api.Status) bool { return s.Upstream.Watch.CaughtUp })
	end()
	server.Stop()
	server.SetStoreDir(t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	text, code := h.run(t, "doctor")
	if code == 0 || !strings.Contains(text, "is gone") || !strings.Contains(text, "botwired restore --all") || strings.Contains(text, "the daemon makes it") {
		t.Errorf("doctor ends with %d and says:\n%s", code, text)
	}
}
