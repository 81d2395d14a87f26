package fleet

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/proof/cluster"
	"github.com/botwired/botwired/proof/cluster/check"
)

const lostNamespace = "kept"

func kept(i int) check.Entry {
	return check.Entry{Namespace: lostNamespace, Key: fmt.Sprint("key-", i)}
}

// The servers lose their disks. Two hosts give back what they have copies of, one after the other, and
// what one of them has written and deleted meanwhile wins over the other one's older copies.
func TestTwoHostsRestoreABucket(t *testing.T) {
	const entries = 20
	server := cluster.RunServer(t)
	flags := append(OverBucket("restored"), "--upstream-nats-replicas", "1", "--upstream-timeout", "2s")
	a, b := daemon(t, server.URL(), flags...), daemon(t, server.URL(), flags...)
	for i := range entries {
		if _, err := a.Put(t.Context(), kept(i), "before"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range entries {
		awaited(t, b, kept(i), "before")
	}
	if err := a.Flush(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server.SetStoreDir(t.TempDir())
	if _, err := b.Put(t.Context(), kept(0), "after"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Delete(t.Context(), kept(1)); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Daemon{a, b} {
		awaitStatus(t, d, "the loss is noticed", func(s *api.Status) bool { return s.Upstream.Watch.Lost != "" })
		if err := d.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitStatus(t, d, "upstream has all entries again", func(s *api.Status) bool {
			return s.Upstream.Watch.Lost == "" && s.Upstream.Watch.CaughtUp && s.Pending == 0 && len(Losses(s)) == 0
		})
	}
	for _, d := range []*Daemon{a, b} {
		awaited(t, d, kept(0), "after")
		awaited(t, d, kept(1), "")
		for i := 2; i < entries; i++ {
			awaited(t, d, kept(i), "before")
		}
	}
	ofA, errA := a.List(t.Context(), lostNamespace, 100)
	ofB, errB := b.List(t.Context(), lostNamespace, 100)
	if errA != nil || errB != nil || len(ofA) != entries-1 || !maps.Equal(ofA, ofB) {
		t.Errorf("a lists %v, %v; b lists %v, %v", ofA, errA, ofB, errB)
	}
}

// A power cut takes two hosts and the servers, which lose what they had confirmed in the last instant. Both hosts notice,
// also if a third one writes past all that before they start, and give everything back.
func TestTwoHostsAfterAPowerCut(t *testing.T) {
	for name, writes := range map[string]int{"alone": 0, "passed": 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := cluster.RunServer(t)
			flags := append(OverBucket("cut"), "--upstream-nats-replicas", "1", "--upstream-timeout", "2s", "--flush-linger", "1ms")
			hosts := []Options{{}, {}}
			daemons := make([]*Daemon, len(hosts))
			serve := func() {
				t.Helper()
				for i := range hosts {
					if hosts[i].Dir == "" {
						hosts[i] = Options{Program: program, Dir: t.TempDir(), Upstream: server.URL(), Flags: flags}
					}
					d, err := Start(t.Context(), hosts[i])
					if err != nil {
						t.Fatal(err)
					}
					daemons[i] = d
				}
			}
			serve()
			write := func(value string, from, to int) {
				t.Helper()
				for i := from; i < to; i++ {
					if _, err := daemons[0].Put(t.Context(), kept(i), value); err != nil {
						t.Fatal(err)
					}
				}
				for _, d := range daemons {
					for i := from; i < to; i++ {
						awaited(t, d, kept(i), value)
					}
				}
				if err := daemons[0].Flush(t.Context(), patience); err != nil {
					t.Fatal(err)
				}
			}
			write("old", 0, 4)
			server.Stop()
			old := t.TempDir()
			if err := os.CopyFS(old, os.DirFS(server.StoreDir())); err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			for _, d := range daemons {
				awaitStatus(t, d, "the bucket is watched", func(s *api.Status) bool { return s.Upstream.Watch.CaughtUp })
			}
			write("new", 0, 8) // four of them had a value before
			for _, d := range daemons {
				if err := d.Kill(); err != nil {
					t.Fatal(err)
				}
				d.transport.CloseIdleConnections()
			}
			server.Stop()
			server.SetStoreDir(old)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			third := daemon(t, server.URL(), flags...)
			for i := range writes {
				if _, err := third.Put(t.Context(), check.Entry{Namespace: "third", Key: fmt.Sprint(i)}, "v"); err != nil {
					t.Fatal(err)
				}
			}
			awaited(t, third, kept(0), "old")
			if err := third.Flush(t.Context(), patience); err != nil {
				t.Fatal(err)
			}
			serve()
			for _, d := range daemons {
				t.Cleanup(func() {
					if err := d.Stop(); err != nil {
						t.Error(err)
					}
				})
				awaitStatus(t, d, "the loss is noticed", func(s *api.Status) bool { return s.Upstream.Watch.Lost != "" })
				if err := d.Restore(t.Context()); err != nil {
					t.Fatal(err)
				}
				awaitStatus(t, d, "upstream has all entries again", func(s *api.Status) bool {
					return s.Upstream.Watch.Lost == "" && s.Upstream.Watch.CaughtUp && s.Pending == 0 && len(Losses(s)) == 0
				})
			}
			for _, d := range append(daemons, third) {
				for i := range 8 {
					awaited(t, d, kept(i), "new")
				}
			}
		})
	}
}

// awaitStatus asks for the status until it is as wanted.
func awaitStatus(t *testing.T, d *Daemon, what string, wanted func(*api.Status) bool) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s, err := d.Status(t.Context())
		if err == nil && wanted(s) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: %+v, %v", what, s, err)
		}
	}
}

// A single server cannot have the three replicas that the settings ask for: the status says so before
// anybody writes.
func TestWithoutABucket(t *testing.T) {
	d := daemon(t, cluster.RunServer(t).URL(), OverBucket("none")...)
	awaitStatus(t, d, "upstream is down", func(s *api.Status) bool {
		return s.Upstream.State == "down" && s.Summary.Level == api.LevelCritical && strings.Contains(s.Summary.Text, "set upstream.nats.replicas: 1")
	})
}
