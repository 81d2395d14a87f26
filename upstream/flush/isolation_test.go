package flush_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/flush"
)

// Of 50 namespaces, upstream answers one with 429 for an hour, another with 500 and a third with 400.
// The writes of the others are sent as usual.
func TestSickNamespacesDelayNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		statuses := map[string]int{"ns0": 429, "ns1": 500, "ns2": 400}
		r.answer = func(c call) reply {
			if status := statuses[c.id.Namespace]; status != 0 {
				return detail(status)
			}
			return reply{}
		}
		began, late := time.Now(), 0
		for i := 0; time.Since(began) < time.Hour/flush.Fewer; i++ {
			var written []journal.ID
			for n := range 50 {
				id := journal.ID{Namespace: fmt.Sprint("ns", n), Key: fmt.Sprint(i % 40)}
				r.put(id, fmt.Sprint(i))
				if statuses[id.Namespace] == 0 {
					written = append(written, id)
				}
			}
			// 47 writes are four rounds of 14 requests in flight.
			time.Sleep(linger + 4*r.latency)
			for _, id := range written {
				if got, _ := r.holds(id); got != fmt.Sprint(i) {
					late++
				}
			}
			time.Sleep(30 * time.Second)
		}
		if late > 0 {
			t.Errorf("%d writes of the others were late", late)
		}
	})
}

// A backlog goes upstream about as fast as the slots allow, from one namespace or many, and with equal
// or varying round trips.
func TestADrainTakesLittleMoreThanItMust(t *testing.T) {
	jittery := takes(25*time.Millisecond, 75*time.Millisecond)
	for _, row := range []struct {
		name       string
		fenced     bool // each write takes two round trips
		namespaces int
		entries    int
		answer     func(call) reply
		most       float64 // times the ideal; a short backlog ends before the window has settled
	}{
		{"steady", false, 1, 10_000, nil, 1.2}, {"steady", false, 25, 2500, nil, 1.3},
		{"jittery", false, 1, 2500, jittery, 1.3}, {"jittery", false, 2, 2500, jittery, 1.3},
		{"fenced", true, 1, 10_000, nil, 1.2}, {"fenced", true, 25, 2500, nil, 1.3}, {"fenced, jittery", true, 2, 2500, jittery, 1.3},
	} {
		t.Run(fmt.Sprint(row.name, row.namespaces), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := openRig(&rig{fake: newFake(t), t: t, fs: vfs.NewMem(), fenced: map[bool]string{true: "a.test"}[row.fenced]})
				ideal := time.Duration(row.entries) * r.latency / concurrency
				if row.fenced {
					ideal *= 2
				}
				if row.answer != nil {
					r.set(func(f *fake) { f.latency, f.answer = 0, row.answer })
				}
				r.linger.Store(int64(time.Hour))
				for n := range row.namespaces {
					r.putMany(fmt.Sprint("ns", n), row.entries/row.namespaces)
				}
				began := time.Now()
				settled, _, pending, err := r.flusher.Flush(context.Background(), "")
				if err != nil || settled != row.entries || pending != 0 {
					t.Errorf("%d settled, %d pending, %v", settled, pending, err)
				}
				times := float64(time.Since(began)) / float64(ideal)
				t.Logf("%.2f times the ideal %v", times, ideal)
				if times > row.most {
					t.Errorf("%.2f times the ideal, more than %v", times, row.most)
				}
			})
		})
	}
}
