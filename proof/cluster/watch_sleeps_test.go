package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// consumers are the names of the consumers that the servers have.
func consumers(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	list := stream.ConsumerNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// A watch that gets nothing though its server says that all is well is replaced.
func TestWatchSleeps(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	var told heard
	b := told.follow(engineOf(t, "h2", []string{s.URL()}))
	sounds(t, b)
	js := admin(t, s.URL())
	names := consumers(t, js)
	if len(names) != 1 {
		t.Fatalf("one engine has the consumers %v", names)
	}
	if _, err := js.PauseConsumer(t.Context(), "KV_memory", names[0], time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	a := engineOf(t, "h1", []string{s.URL()})
	asleep := time.Now()
	for i := range 20 {
		swapped(t, a, putting(fmt.Sprint("k", i), "v", 1000, uint64(i+1), upstream.Version{}))
	}
	until(t, func() bool {
		asOf, _, ok := b.CaughtUp()
		_, present, _ := b.Entry(entry("k19"))
		if ok && !present && asOf.After(asleep.Add(time.Second)) {
			t.Errorf("a view without the writes claims to be complete up to %v after them", asOf.Sub(asleep))
		}
		return present
	})
	sounds(t, b)
	if b.State().Entries != 20 || told.of(entry("k0")).Revision == 0 {
		t.Fatalf("the new watch has %+v", b.State())
	}
}

// Servers that have not agreed on a leader never answer a question: the watch asks again.
func TestWatchAsksAgain(t *testing.T) {
	t.Parallel()
	s := RunServer(t, func(o *server.Options) { o.JetStream = false })
	questions := make(chan *nats.Msg, 64)
	if _, err := admin(t, s.URL()).Conn().ChanSubscribe("$JS.API.STREAM.INFO.KV_memory", questions); err != nil {
		t.Fatal(err)
	}
	engineOf(t, "h1", []string{s.URL()}, func(o *natskv.Options) { o.Timeout = time.Hour })
	for range 2 {
		select {
		case <-questions:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}

// A watch whose consumer the servers have removed goes on with another one.
func TestWatchConsumerRemoved(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	b := engineOf(t, "h2", []string{s.URL()})
	sounds(t, b)
	js := admin(t, s.URL())
	for _, name := range consumers(t, js) {
		if err := js.DeleteConsumer(t.Context(), "KV_memory", name); err != nil {
			t.Fatal(err)
		}
	}
	a := engineOf(t, "h1", []string{s.URL()})
	swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	until(t, func() bool { _, present, _ := b.Entry(entry("k")); return present })
	sounds(t, b)
}

// An engine deletes the consumer of a connection that has broken.
func TestWatchLeavesNoConsumers(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	link := newDeaf(t, s.Address())
	sounds(t, engineOf(t, "h2", []string{link.url()}))
	js := admin(t, s.URL())
	seen := make(map[string]bool)
	for range 10 {
		until(t, func() (another bool) {
			for _, name := range consumers(t, js) {
				another = another || !seen[name]
				seen[name] = true
			}
			return another
		})
		link.breaks()
	}
	if left := consumers(t, js); len(left) > 5 {
		t.Errorf("%d consumers are left", len(left))
	}
}

// An entry that somebody has removed from the stream without a trace is found by its absence.
func TestWatchVanished(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	var told heard
	a := told.follow(engineOf(t, "h1", []string{s.URL()}))
	sounds(t, a)
	swapped(t, a, putting("gone", "v", 1000, 1, upstream.Version{}))
	swapped(t, a, putting("stays", "v", 1000, 2, upstream.Version{}))
	sounds(t, a)
	stream, err := admin(t, s.URL()).Stream(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.memory.ns.gone")); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { _, present, _ := a.Entry(entry("gone")); return !present })
	if v := told.of(entry("gone")); !v.Deleted {
		t.Fatalf("it was told %+v", v)
	}
	sounds(t, a)
	if _, present, _ := a.Entry(entry("stays")); !present || told.of(entry("stays")).Deleted {
		t.Fatal("the other entry is gone, too")
	}
	swapped(t, a, putting("gone", "back", 2000, 3, upstream.Version{}))
}

// A bucket that is empty again, by its subjects' end, can be watched like a new one.
func TestWatchEmptied(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	a := engineOf(t, "h1", []string{s.URL()})
	sounds(t, a)
	swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	stream, err := admin(t, s.URL()).Stream(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := engineOf(t, "h2", []string{s.URL()})
	sounds(t, b)
	if rows, complete, err := b.List(t.Context(), "ns"); len(rows) != 0 || !complete || err != nil {
		t.Fatalf("the list is %v, %v, %v", rows, complete, err)
	}
}

// Another program's message is seen though its time is earlier than that of the version it replaces.
func TestWatchEarlierTime(t *testing.T) {
	s := RunServer(t)
	a := engineOf(t, "h1", []string{s.URL()})
	sounds(t, a)
	swapped(t, a, putting("k", "v", 4e9, 1, upstream.Version{})) // its clock is far ahead
	if _, err := admin(t, s.URL()).Publish(t.Context(), "$KV.memory.ns.k", []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { row, _, _ := a.Entry(entry("k")); return row.UpdatedAt == 4e9+1e-6 })
	v, err := a.Get(t.Context(), entry("k"))
	if err != nil || v.Value != "theirs" || v.WrittenAt != 4e9+1e-6 {
		t.Errorf("it is read as %+v, %v", v, err)
	}
}

// Messages in the bucket that are no entries do no harm.
func TestWatchForeign(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	a := engineOf(t, "h1", []string{s.URL()})
	sounds(t, a)
	js := admin(t, s.URL())
	for _, subject := range []string{"$KV.memory.nokey", "$KV.memory.ns.a.b", "$KV.memory.n/s.k"} {
		if _, err := js.Publish(t.Context(), subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	soundFor(t, a, 3*time.Second) // the index is not taken for incomplete
	if r := a.State(); r.Entries != 1 {
		t.Fatalf("the index has %d entries", r.Entries)
	}
}
