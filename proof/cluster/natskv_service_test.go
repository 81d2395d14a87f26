package cluster

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// serviceOf opens a service with an engine of its own, and closes it at the test's end.
func serviceOf(t *testing.T, host string, url string, set ...func(*natskv.Options)) *natskv.Service {
	t.Helper()
	return natskv.NewService(engineOf(t, host, []string{url}, set...))
}

func TestAServiceIsBotWires(t *testing.T) {
	url := RunServer(t).URL()
	a, b := serviceOf(t, "a", url), serviceOf(t, "b", url)
	if _, found, err := a.Get(t.Context(), "ns", "k"); found || err != nil {
		t.Errorf("nothing: %v, %v", found, err)
	}
	if existed, err := a.Remove(t.Context(), "ns", "k"); existed || err != nil {
		t.Errorf("the removal of nothing: %v, %v", existed, err)
	}
	before := float64(time.Now().UnixMicro()) / 1e6
	for i, s := range []*natskv.Service{a, b, a} {
		if err := s.Set(t.Context(), "ns", "k", "v"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	got, found, err := b.Get(t.Context(), "ns", "k")
	if err != nil || !found || got.CreatedAt < before || got.UpdatedAt <= got.CreatedAt {
		t.Errorf("it is %+v, %v, %v", got, found, err)
	}
	want := wire.Entry{Namespace: "ns", Key: "k", Value: "v2", CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if existed, err := b.Remove(t.Context(), "ns", "k"); !existed || err != nil {
		t.Errorf("the removal: %v, %v", existed, err)
	}
	if _, found, err := a.Get(t.Context(), "ns", "k"); found || err != nil {
		t.Errorf("removed, it is there: %v, %v", found, err)
	}
	if err := a.Set(t.Context(), "ns", "k", "again"); err != nil {
		t.Fatal(err)
	}
	if again, _, err := b.Get(t.Context(), "ns", "k"); err != nil || again.CreatedAt <= got.UpdatedAt {
		t.Errorf("made again, it is %+v, %v", again, err)
	}
}

func TestAServiceLists(t *testing.T) {
	url := RunServer(t).URL()
	a, b := serviceOf(t, "a", url), serviceOf(t, "b", url)
	for i, key := range []string{"x", "y", "z", "x", "gone"} {
		if err := []*natskv.Service{a, b}[i%2].Set(t.Context(), "ns", key, "日本\x00語"); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Set(t.Context(), "other", "k", "1234"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Remove(t.Context(), "ns", "gone"); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int][]string{1: {"x"}, 2: {"x", "z"}, 100: {"x", "z", "y"}} {
		l, err := b.List(t.Context(), "ns", limit)
		var keys []string
		for _, item := range l.Items {
			keys = append(keys, item.Key)
			if item.Bytes != 2 {
				t.Errorf("the size of %s is %d", item.Key, item.Bytes)
			}
		}
		if diff := cmp.Diff(want, keys); err != nil || diff != "" || l.Namespace != "ns" {
			t.Errorf("limit %d: %v %s", limit, err, diff)
		}
	}
	if l, err := b.List(t.Context(), "empty", 10); err != nil || len(l.Items) != 0 {
		t.Errorf("an empty namespace: %+v, %v", l, err)
	}
	entries, namespaces, bytes, err := b.Stats(t.Context())
	if err != nil || entries != 4 || namespaces != 2 || bytes != 3*2+4 {
		t.Errorf("the sums are %d entries, %d namespaces, %d bytes, %v", entries, namespaces, bytes, err)
	}
}

// Of many removals at once, one finds the entry.
func TestOneRemovalFindsTheEntry(t *testing.T) {
	url := RunServer(t).URL()
	var services []*natskv.Service
	for i := range 4 {
		services = append(services, serviceOf(t, "h"+strconv.Itoa(i), url))
	}
	for range 20 {
		if err := services[0].Set(t.Context(), "ns", "k", "v"); err != nil {
			t.Fatal(err)
		}
		var work sync.WaitGroup
		found := make(chan bool, len(services))
		for _, s := range services {
			work.Go(func() {
				existed, err := s.Remove(t.Context(), "ns", "k")
				if err != nil {
					t.Error(err)
				}
				found <- existed
			})
		}
		work.Wait()
		close(found)
		n := 0
		for existed := range found {
			if existed {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d removals have found the entry", n)
		}
	}
}

func TestAServiceWithoutServersIsUnavailable(t *testing.T) {
	t.Parallel()
	local := RunServer(t)
	s := serviceOf(t, "a", local.URL(), func(o *natskv.Options) { o.Timeout = 200 * time.Millisecond })
	if err := s.Set(t.Context(), "ns", "k", "v"); err != nil {
		t.Fatal(err)
	}
	local.Stop()
	_, _, got := s.Get(t.Context(), "ns", "k")
	_, removed := s.Remove(t.Context(), "ns", "k")
	_, listed := s.List(t.Context(), "ns", 10)
	_, _, _, counted := s.Stats(t.Context())
	for what, err := range map[string]error{"get": got, "set": s.Set(t.Context(), "ns", "k", "w"), "remove": removed, "list": listed, "stats": counted} {
		var away interface{ Unavailable() bool }
		if !errors.As(err, &away) || !away.Unavailable() {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A request waits out a restart of the servers that is shorter than it may take.
func TestAServiceWaitsOutARestart(t *testing.T) {
	local := RunServer(t)
	e := engineOf(t, "a", []string{local.URL()}, func(o *natskv.Options) { o.Timeout = time.Minute })
	s := natskv.NewService(e)
	if err := s.Set(t.Context(), "ns", "k", "v"); err != nil {
		t.Fatal(err)
	}
	local.Stop()
	until(t, func() bool {
		var f *upstream.Error
		return errors.As(asked(t, e), &f) && f.Verdict == upstream.Unsent
	})
	result := make(chan error, 1)
	go func() { result <- s.Set(t.Context(), "ns", "k", "w") }()
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	err := <-result
	got, _, read := s.Get(t.Context(), "ns", "k")
	if err != nil || read != nil || got.Value != "w" {
		t.Errorf("the write: %v; the entry is %+v, %v", err, got, read)
	}
}
