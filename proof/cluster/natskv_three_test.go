package cluster

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// threeEngines opens engines over three servers, each by a network of its own.
func threeEngines(t *testing.T, n int, timeout time.Duration) (*Servers, []*natskv.Engine) {
	t.Helper()
	servers, err := Start(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	var urls []string
	for _, s := range servers.All {
		urls = append(urls, "nats://"+s.Address())
	}
	engines := make([]*natskv.Engine, n)
	for i := range engines {
		engines[i] = engineOf(t, "h"+strconv.Itoa(i), urls, func(o *natskv.Options) { o.Replicas, o.Timeout = 3, timeout })
	}
	for _, e := range engines {
		until(t, func() bool { return asked(t, e) == nil })
	}
	return servers, engines
}

func TestSixWritersCountTogetherOnThreeServers(t *testing.T) {
	_, engines := threeEngines(t, 6, time.Minute)
	const times = 20
	var work sync.WaitGroup
	for _, e := range engines {
		work.Go(func() {
			for range times {
				if err := increment(t.Context(), e, entry("n")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	v, err := engines[0].Get(t.Context(), entry("n"))
	if err != nil || v.Value != strconv.Itoa(len(engines)*times) {
		t.Errorf("the count is %s, %v; want %d", v.Value, err, len(engines)*times)
	}
}

func TestNoConfirmedSwapIsLostWithTheLeader(t *testing.T) {
	servers, engines := threeEngines(t, 3, 2*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	for i, e := range engines {
		work.Go(func() { writeUntil(ctx, t, e, "k"+strconv.Itoa(i)) })
	}
	for range 2 {
		leader, err := servers.Leader(t.Context(), "KV_memory")
		if err != nil {
			t.Fatal(err)
		}
		one := servers.All[leader]
		if err := one.Kill(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return wrote(t.Context(), engines[0], "probe", "v") == nil }) // another one leads
		if err := one.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	work.Wait()
	for i := range engines {
		until(t, func() bool {
			v, err := engines[(i+1)%3].Get(t.Context(), entry("k"+strconv.Itoa(i)))
			if err == nil && v.Writer == (upstream.Writer{}) {
				t.Fatalf("k%d is gone", i)
			}
			return err == nil
		})
	}
}
