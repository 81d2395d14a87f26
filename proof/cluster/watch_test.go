package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// heard is what an engine has told of its changes.
type heard struct {
	mu   sync.Mutex
	last map[journal.ID]upstream.Version
}

// follow follows an engine that was just opened, and so has seen nothing yet.
func (h *heard) follow(e *natskv.Engine) *natskv.Engine {
	h.last = make(map[journal.ID]upstream.Version)
	e.Follow(func(id journal.ID, v upstream.Version) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.last[id] = v
	})
	return e
}

func (h *heard) of(id journal.ID) upstream.Version {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[id]
}

// marks keeps a mark in memory, as a data directory does on its disk.
type marks struct {
	mu    sync.Mutex
	mark  natskv.Mark
	saves int
}

func (m *marks) Load() (natskv.Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark, nil
}

func (m *marks) Save(mark natskv.Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mark = mark
	m.saves++
	return nil
}

func sound(e *natskv.Engine) bool {
	_, _, ok := e.CaughtUp()
	return ok
}

// sounds waits until the view is sound.
func sounds(t *testing.T, e *natskv.Engine) {
	t.Helper()
	until(t, func() bool { return sound(e) })
}

// soundFor waits until the view has been sound for so long, from now on, without a gap. A busy machine makes
// gaps: a comparison then takes too long.
func soundFor(t *testing.T, e *natskv.Engine, long time.Duration) {
	t.Helper()
	began := time.Now()
	until(t, func() bool {
		asOf, since, ok := e.CaughtUp()
		if since.Before(began) {
			since = began
		}
		return ok && asOf.Sub(since) > long
	})
}

// fill writes entries beside all engines, as fast as the server takes them.
func fill(t *testing.T, url, prefix string, n int) {
	t.Helper()
	js, err := jetstream.New(admin(t, url).Conn(), jetstream.WithPublishAsyncMaxPending(n))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		m := nats.NewMsg(fmt.Sprintf("$KV.memory.ns.%s%d", prefix, i))
		m.Data = []byte("value")
		if _, err := js.PublishMsgAsync(m); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// A write on one host shows on another one, without being asked for.
func TestWatchShowsOtherHosts(t *testing.T) {
	s := RunServer(t)
	var told heard
	a := engineOf(t, "h1", []string{s.URL()})
	b := told.follow(engineOf(t, "h2", []string{s.URL()}))
	sounds(t, a)
	sounds(t, b)
	before := time.Now()
	v := swapped(t, a, putting("k", "one", 1000.5, 1, upstream.Version{}))
	row, present, known := a.Entry(entry("k"))
	if !present || !known || row.UpdatedAt != 1000.5 || row.Origin.Seq != 1 {
		t.Fatalf("the writer itself sees %+v, %v, %v", row, present, known)
	}
	until(t, func() bool { _, present, _ := b.Entry(entry("k")); return present })
	t.Logf("another host sees it after %v", time.Since(before))
	row, _, _ = b.Entry(entry("k"))
	if row.UpdatedAt != 1000.5 || row.Origin.Seq != 0 || row.Origin.At != 1000.5 || row.ListBytes != 3 {
		t.Fatalf("the other host sees %+v", row)
	}
	if got := told.of(entry("k")); got.Revision != v.Revision || got.Value != "" {
		t.Fatalf("it was told %+v, not %+v", got, v)
	}
	if at := b.NotBefore(entry("other")); at != 1000.5 {
		t.Fatalf("a write to another entry is later than %v, want 1000.5", at)
	}
	rows, total, known := b.Newest("ns", 10)
	if len(rows) != 1 || total != 1 || !known {
		t.Fatalf("the list has %v, %d, %v", rows, total, known)
	}
}

// A whole bucket is read within the first comparison, and a list is complete at once.
func TestWatchReadsAll(t *testing.T) {
	s := RunServer(t, func(o *server.Options) { o.SyncAlways = false })
	a := engineOf(t, "h1", []string{s.URL()})
	sounds(t, a)
	const n = 50_000
	fill(t, s.URL(), "k", n)
	began := time.Now()
	b := engineOf(t, "h2", []string{s.URL()}, func(o *natskv.Options) { o.Timeout = time.Minute }) // on a busy machine
	rows, complete, err := b.List(t.Context(), "ns")
	if err != nil || !complete || len(rows) != n {
		t.Fatalf("the list has %d rows, %v, %v", len(rows), complete, err)
	}
	sounds(t, b)
	t.Logf("%d entries read after %v", n, time.Since(began))
	if rows, _, err = a.List(t.Context(), "ns"); err != nil || len(rows) != n {
		t.Fatalf("the host that was there has %d rows, %v", len(rows), err)
	}
	until(t, func() bool { return b.State().CaughtUp }) // a busy machine's comparisons make gaps
	if r := b.State(); r.Entries != n || r.Lost != "" || r.Bytes < n*80 {
		t.Fatalf("the report says %+v", r)
	}
}

// A server that starts again, and one that cannot be reached for a moment, lose nothing of the view.
func TestWatchGoesOnAfterRestarts(t *testing.T) {
	s := RunServer(t)
	var told heard
	a := engineOf(t, "h1", []string{s.URL()})
	b := told.follow(engineOf(t, "h2", []string{s.URL()}))
	sounds(t, a)
	sounds(t, b)
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			for wrote(ctx, a, fmt.Sprint("k", n), "v") != nil && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
		written <- n - 1
	}()
	for range 3 {
		until(t, func() bool { return sound(b) && b.State().Entries > 20 })
		s.Stop()
		until(t, func() bool { return !sound(b) && !sound(a) })
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		sounds(t, b)
	}
	stop()
	n := <-written
	sounds(t, a)
	rows, _, err := b.List(t.Context(), "ns")
	if err != nil || len(rows) < n || len(rows) > n+1 {
		t.Fatalf("%d entries were written, the list has %d, %v", n, len(rows), err)
	}
	for _, r := range rows {
		if v := told.of(journal.ID{Namespace: "ns", Key: r.Key}); v.WrittenAt != r.UpdatedAt {
			t.Fatalf("%s was told as %+v", r.Key, v)
		}
	}
}

// A network that goes silent is noticed within seconds, and what changed meanwhile is told after.
func TestWatchAcrossSilence(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	link, err := NewLink(t.Context(), s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	var told heard
	a := engineOf(t, "h1", []string{s.URL()})
	b := told.follow(engineOf(t, "h2", []string{"nats://" + link.Address()}))
	sounds(t, a)
	sounds(t, b)
	cut := time.Now()
	link.Cut()
	swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	until(t, func() bool {
		asOf, _, ok := b.CaughtUp()
		if asOf.After(cut.Add(50 * time.Millisecond)) {
			t.Errorf("the view claims to be complete %v after the network was cut", asOf.Sub(cut))
		}
		return !ok
	})
	t.Logf("noticed after %v: %s", time.Since(cut), b.State().Reason)
	link.Join()
	sounds(t, b)
	if row, present, _ := b.Entry(entry("k")); !present || row.UpdatedAt != 1000 {
		t.Fatalf("sound again, it has %+v, %v", row, present)
	}
	if told.of(entry("k")).Revision == 0 {
		t.Fatal("the change was not told")
	}
	_, since, _ := b.CaughtUp()
	if since.Before(cut) {
		t.Fatalf("it is sound without a gap since before the cut: %v", since)
	}
}

// A bucket that was made anew is not believed until a person accepts it.
func TestWatchAmnesia(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	var kept marks
	var told heard
	a := told.follow(engineOf(t, "h1", []string{s.URL()}, func(o *natskv.Options) { o.Marks = &kept }))
	sounds(t, a)
	swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	if kept.saves == 0 {
		t.Fatal("no mark was saved before the first write")
	}
	s.Stop()
	s.SetStoreDir(t.TempDir())
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	b := engineOf(t, "h2", []string{s.URL()})
	sounds(t, b) // it makes the bucket
	until(t, func() bool { return a.State().Lost != "" })
	t.Log(a.State().Lost)
	_, err := a.Get(t.Context(), entry("k"))
	failed(t, err, upstream.Paused, "made anew")
	if sound(a) {
		t.Fatal("the view of a bucket that is not believed is sound")
	}
	if err := a.Accept(false); err != nil {
		t.Fatal(err)
	}
	sounds(t, a)
	if _, present, known := a.Entry(entry("k")); present || !known {
		t.Fatalf("the lost entry is present: %v, known: %v", present, known)
	}
	if !told.of(entry("k")).Deleted {
		t.Fatal("nobody was told that the entry is no more")
	}
	swapped(t, a, putting("k", "v2", 1001, 2, upstream.Version{}))
}

// copiedFiles returns a copy of the server's files as they are now. The server stops for that, and the engine's
// watch has caught up again.
func copiedFiles(t *testing.T, s *Local, e *natskv.Engine) (dir string) {
	t.Helper()
	s.Stop()
	until(t, func() bool { return !sound(e) }) // the engine knows that the connection is gone
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.StoreDir())); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	sounds(t, e)
	return dir
}

// What was deleted since an older copy of the server's files is deleted there again, if a person restores.
func TestWatchGivesDeletesBack(t *testing.T) {
	for restores, want := range map[bool]bool{true: false, false: true} {
		t.Run(fmt.Sprint(restores), func(t *testing.T) {
			t.Parallel()
			s := RunServer(t)
			a := engineOf(t, "h1", []string{s.URL()})
			sounds(t, a)
			v := swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
			old := copiedFiles(t, s, a)
			swapped(t, a, upstream.Proposal{ID: entry("k"), Op: journal.Delete, WrittenAt: 1001, Writer: upstream.Writer{Host: "h1", Seq: 2}, Over: v})
			s.Stop()
			s.SetStoreDir(old)
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			until(t, func() bool { return a.State().Lost != "" })
			if err := a.Accept(restores); err != nil {
				t.Fatal(err)
			}
			sounds(t, a)
			b := engineOf(t, "h2", []string{s.URL()})
			until(t, func() bool {
				there, err := b.Get(t.Context(), entry("k"))
				return err == nil && there.Present() == want && (want || there.WrittenAt == 1001 && there.Writer.Seq == 2)
			})
			until(t, func() bool { _, present, known := a.Entry(entry("k")); return known && present == want })
		})
	}
}

// A server that comes back with an older copy of its files has lost writes.
func TestWatchOldCopy(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	var kept marks
	with := func(o *natskv.Options) { o.Marks = &kept }
	a := engineOf(t, "h1", []string{s.URL()}, with)
	sounds(t, a)
	v := swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	old := copiedFiles(t, s, a)
	whole := s.StoreDir()
	v = swapped(t, a, putting("k", "v2", 1001, 2, v))
	until(t, func() bool { m, _ := kept.Load(); return m.Revision >= v.Revision })
	s.Stop()
	s.SetStoreDir(old)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return a.State().Lost != "" })
	if lost := a.State().Lost; !strings.Contains(lost, "went back from 2 to 1") {
		t.Fatalf("it says: %s", lost)
	}
	s.Stop()
	s.SetStoreDir(whole)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	sounds(t, a) // the bucket is the one that it was again
	if r := a.State(); r.Lost != "" {
		t.Fatalf("the bucket is back, and still: %s", r.Lost)
	}
}

// An older copy of the server's files is put back, and another host writes past all that this one had
// seen before it connects again. A restart does not make it believe that bucket.
func TestWatchOldCopyThatWasPassed(t *testing.T) {
	for says, write := range map[string]func(*testing.T, *natskv.Engine){
		"another message at revision 3": func(t *testing.T, b *natskv.Engine) {
			for i := range 8 {
				swapped(t, b, putting(fmt.Sprint("other", i), "v", 2000, 1, upstream.Version{}))
			}
		},
		"earlier versions of entries": func(t *testing.T, b *natskv.Engine) { // and that message is gone
			var v upstream.Version
			for i := range 16 {
				v = swapped(t, b, putting("other", "v", 2000+float64(i), 1, v))
			}
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := RunServer(t)
			link, err := NewLink(t.Context(), s.Address())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { link.Close() })
			var kept marks
			open := func() *natskv.Engine {
				return engineOf(t, "h1", []string{"nats://" + link.Address()}, func(o *natskv.Options) { o.Marks = &kept })
			}
			a := open()
			sounds(t, a)
			v := swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
			old := copiedFiles(t, s, a)
			swapped(t, a, putting("k", "lost", 1001, 2, v))
			last := swapped(t, a, putting("new", "lost", 1002, 3, upstream.Version{}))
			until(t, func() bool { m, _ := kept.Load(); return m.Revision == last.Revision })
			link.Cut()
			s.Stop()
			s.SetStoreDir(old)
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			b := engineOf(t, "h2", []string{s.URL()})
			until(t, func() bool { return asked(t, b) == nil })
			write(t, b)
			until(t, func() bool { return !sound(a) })
			link.Join()
			until(t, func() bool {
				if sound(a) {
					t.Fatal("the bucket is believed")
				}
				return a.State().Lost != ""
			})
			a.Close()
			a = open()
			until(t, func() bool { return a.State().Lost != "" })
			if lost := a.State().Lost; !strings.Contains(lost, says) {
				t.Errorf("after a restart it says: %s", lost)
			}
			if err := a.Accept(false); err != nil {
				t.Fatal(err)
			}
			sounds(t, a)
		})
	}
}

// A watch that has come further than the stream, within a second, does not take an old copy of it for
// complete.
func TestWatchOldCopyOfTheLastSecond(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	var kept marks
	a := engineOf(t, "h1", []string{s.URL()}, func(o *natskv.Options) { o.Marks = &kept })
	sounds(t, a)
	v := swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	old := copiedFiles(t, s, a)
	for range 5 {
		v = swapped(t, a, putting("k", "lost", v.WrittenAt+1, 2, v))
	}
	s.Stop()
	s.SetStoreDir(old)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	b := engineOf(t, "h2", []string{s.URL()})
	first, err := b.Get(t.Context(), entry("k"))
	if err != nil {
		t.Fatal(err)
	}
	swapped(t, b, putting("k", "theirs", 2000, 1, first))
	until(t, func() bool {
		if row, _, _ := a.Entry(entry("k")); sound(a) && row.UpdatedAt != 2000 {
			t.Fatalf("the view is sound, and has the lost write: %+v", row)
		}
		return a.State().Lost != ""
	})
	if m, _ := kept.Load(); m.Revision != v.Revision {
		t.Errorf("the mark is %+v", m)
	}
}

// The servers lose what they have confirmed since the last look, and another host writes past all that this one had seen
// before it connects again, or before it starts again with what its journal has kept of the bucket.
func TestWatchLastInstantThatWasPassed(t *testing.T) {
	other := func(t *testing.T, b *natskv.Engine, keys int) {
		versions := make([]upstream.Version, keys)
		for i := range 24 {
			versions[i%keys] = swapped(t, b, putting(fmt.Sprint("other", i%keys), "v", 2000+float64(i), 1, versions[i%keys]))
		}
	}
	for name, c := range map[string]struct {
		restarts bool
		keys     int // of the other host
	}{
		"goes on": {false, 24}, "starts again": {true, 24},
		"goes on, and no message is left": {false, 1}, "starts again, and no message is left": {true, 1},
	} {
		for _, lost := range []string{"k", "new"} { // replaced, or created
			t.Run(name+", "+lost, func(t *testing.T) {
				t.Parallel()
				s := RunServer(t)
				link, err := NewLink(t.Context(), s.Address())
				noError(t, err)
				t.Cleanup(func() { link.Close() })
				var kept marks
				open := func() *natskv.Engine {
					return engineOf(t, "h1", []string{"nats://" + link.Address()}, func(o *natskv.Options) { o.Marks = &kept })
				}
				a := open()
				sounds(t, a)
				swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
				old := copiedFiles(t, s, a)
				over, err := a.Get(t.Context(), entry(lost))
				noError(t, err)
				for i := range 8 {
					over = swapped(t, a, putting(lost, "lost", 1001+float64(i), 2, over))
				}
				link.Cut()
				if c.restarts {
					before, err := kept.Load()
					noError(t, err)
					seen := a.Seen()
					a.Close()
					noError(t, kept.Save(before.With(seen)))
				}
				s.Stop()
				s.SetStoreDir(old)
				noError(t, s.Start())
				b := engineOf(t, "h2", []string{s.URL()})
				until(t, func() bool { return asked(t, b) == nil })
				other(t, b, c.keys)
				if !c.restarts {
					until(t, func() bool { return !sound(a) })
				}
				link.Join()
				if c.restarts {
					a = open()
				}
				until(t, func() bool {
					if sound(a) {
						t.Fatal("the bucket is believed")
					}
					return a.State().Lost != ""
				})
				noError(t, a.Accept(false))
				sounds(t, a)
				if after, err := kept.Load(); err != nil || after.With(a.Seen()).Accepted != 1 {
					t.Errorf("after it was accepted, the mark is %+v, %v", after, err)
				}
			})
		}
	}
}

// A bucket loses a confirmed write under a connection that stays: one to a server that has not failed itself. Its last
// revision does not show that, as others have written past it.
func TestWatchLossUnderAConnection(t *testing.T) {
	for name, key := range map[string]string{"replaced": "k", "created": "new"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := RunServer(t)
			js := admin(t, s.URL())
			stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{ // it lets the test delete a message
				Name: "KV_memory", Subjects: []string{"$KV.memory.>"}, MaxMsgsPerSubject: 8, Discard: jetstream.DiscardNew,
				AllowRollup: true, AllowMsgTTL: true,
			})
			noError(t, err)
			a := engineOf(t, "h1", []string{s.URL()})
			sounds(t, a)
			swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
			over, err := a.Get(t.Context(), entry(key))
			noError(t, err)
			lost := swapped(t, a, putting(key, "lost", float64(time.Now().Unix()), 2, over))
			noError(t, stream.DeleteMsg(t.Context(), lost.Revision))
			for _, consumer := range consumers(t, js) { // a leader that fails ends them, too
				noError(t, js.DeleteConsumer(t.Context(), "KV_memory", consumer))
			}
			until(t, func() bool { return a.State().Lost != "" })
		})
	}
}

// A bucket that was removed is not made again by itself: all it held would be forgotten as if nobody
// had written it.
func TestWatchGone(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	var kept marks
	a := engineOf(t, "h1", []string{s.URL()}, func(o *natskv.Options) { o.Marks = &kept })
	sounds(t, a)
	swapped(t, a, putting("k", "v", 1000, 1, upstream.Version{}))
	if err := admin(t, s.URL()).DeleteStream(t.Context(), "KV_memory"); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return a.State().Lost != "" })
	_, err := a.Get(t.Context(), entry("k"))
	failed(t, err, upstream.Paused, "memory is gone")
	if err := a.Accept(false); err != nil {
		t.Fatal(err)
	}
	sounds(t, a)
	swapped(t, a, putting("k", "again", 2000, 2, upstream.Version{}))
	until(t, func() bool { m, _ := kept.Load(); return m.Revision == 1 })
}

// A purge beside botwired is noticed, also soon after another one: a view that has other entries than the
// bucket is never caught up, and lists nothing.
func TestWatchPurgedTwice(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	a := engineOf(t, "h1", []string{s.URL()})
	sounds(t, a)
	const n = 40
	fill(t, s.URL(), "k", n)
	until(t, func() bool { return sound(a) && a.State().Entries == n })
	stream, err := admin(t, s.URL()).Stream(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	for _, purge := range []struct {
		subject string
		left    int
	}{{"$KV.memory.ns.k3", n - 1}, {"", 0}} {
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(purge.subject)); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return !sound(a) || a.State().Entries == purge.left }) // it is noticed
		rows, _, err := a.List(t.Context(), "ns")
		if err == nil && len(rows) != purge.left {
			t.Errorf("%d entries are left, and listed are %d", purge.left, len(rows))
		}
		until(t, func() bool {
			if sound(a) && a.State().Entries != purge.left {
				t.Fatalf("caught up with %d entries, and %d are left", a.State().Entries, purge.left)
			}
			return sound(a)
		})
	}
}

// Tombstones go when they are old enough, and leave a trace for a while.
func TestWatchSweeps(t *testing.T) {
	t.Parallel()
	s := RunServer(t)
	var told heard
	a := told.follow(engineOf(t, "h1", []string{s.URL()}, func(o *natskv.Options) { o.TombstonesFor = time.Second }))
	sounds(t, a)
	js := admin(t, s.URL())
	now := float64(time.Now().Unix()) - 100
	v := swapped(t, a, putting("k", "v", now, 1, upstream.Version{}))
	v = swapped(t, a, upstream.Proposal{
		ID: entry("k"), Op: journal.Delete, WrittenAt: now + 1, Writer: upstream.Writer{Host: "h1", Seq: 2}, Over: v,
	})
	keeps := swapped(t, a, putting("other", "v", now, 3, upstream.Version{}))
	until(t, func() bool { return told.of(entry("k")).Revision > v.Revision })
	stream, err := js.Stream(t.Context(), "KV_memory")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), "$KV.memory.ns.k")
	if err != nil || m.Header.Get("KV-Operation") != "PURGE" || m.Header.Get("Nats-TTL") != "1h0m0s" {
		t.Fatalf("the trace is %+v, %v", m, err)
	}
	got, known := a.Known(entry("k"))
	if !known || !got.Deleted || got.WrittenAt != now+1 || got.Revision != m.Sequence {
		t.Fatalf("the index has %+v, %v", got, known)
	}
	if _, present, _ := a.Entry(entry("other")); !present || stream.CachedInfo().State.Msgs != 2 {
		t.Fatalf("%d messages are left, and the other entry is present: %v", stream.CachedInfo().State.Msgs, present)
	}
	swapped(t, a, putting("k", "again", now+2, 4, got))
	swapped(t, a, putting("other", "again", now+2, 5, keeps))
}
