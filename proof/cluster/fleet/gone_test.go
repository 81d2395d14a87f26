package fleet

import (
	"errors"
	"net/http"
	"strings"
	"testing"

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
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
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
		return strings.Contains(s.Summary.Text, "make it") && len(Losses(s)) == 1
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
