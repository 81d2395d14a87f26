//go:build faults && linux && amd64

package faults

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"syscall"
	"testing"
	"time"
)

const year = 365 * 24 * time.Hour

// updatedAt returns the time of an entry's last write as a read gives it, in Unix
// seconds.
func updatedAt(t *testing.T, c *client, key string) float64 {
	t.Helper()
	status, answer, err := c.do(http.MethodGet, entryPath(key), nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s: %d %.200s (%v)", key, status, answer, err)
	}
	var doc struct {
		UpdatedAt float64 `json:"updated_at"`
	}
	if err := json.Unmarshal(answer, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.UpdatedAt
}

// isOff checks that the daemon's clock is off by as much as the test wants, by the time
// that the daemon gives a write.
func isOff(t *testing.T, c *client, l *ledger, key string, want time.Duration) {
	t.Helper()
	if status, answer := l.put(c, key, 100); status != http.StatusOK {
		t.Fatalf("PUT: %d %.200s", status, answer)
	}
	now := float64(time.Now().UnixMicro()) / 1e6
	if off := updatedAt(t, c, key) - now; math.Abs(off-want.Seconds()) > 60 {
		t.Fatalf("the daemon's clock is off by %.0f s, want %.0f: the test tests nothing", off, want.Seconds())
	}
}

// The wall clock jumps a year ahead, then two years back, and is right again after a
// kill. Writes keep their order and go upstream in it, and the updated_at of an entry
// never goes backwards (contract 19).
func TestWallClockJumps(t *testing.T) {
	up := newUpstream(t)
	dir := t.TempDir()
	d := start(t, dir, up)
	clock := newWallClock(t, d)
	l := newLedger()
	newest := make(map[string]float64)
	for i, offset := range []time.Duration{0, year, -year} {
		if i > 0 {
			clock.set(t, d, offset)
		}
		isOff(t, d.client, l, fmt.Sprintf("only-%d", i), offset)
		writeWhile(t, d, l, up, newest)
	}
	writers := l.write(t, d.client, "c", 4, 10, 200)
	clock.set(t, d, year)
	up.down(t)
	before := l.answered(http.StatusOK)
	eventually(t, time.Minute, "writes while upstream is down", func() error { return l.reached(before + 200) })
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, time.Minute)
	writers.end()

	d = start(t, dir, up) // with the right time: a year back
	l.audit(t, "the restarted daemon", d.client)
	neverBack(t, d.client, newest)
	up.up(t)
	writeWhile(t, d, l, up, newest)
	up.inOrder(t)
	l.audit(t, "the daemon", d.client)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

// writeWhile writes with upstream up, down and up again, to the same keys in every
// phase, and waits until everything is upstream.
func writeWhile(t *testing.T, d *daemon, l *ledger, up *fakeUpstream, newest map[string]float64) {
	t.Helper()
	for _, change := range []func(*testing.T){nil, up.down, up.up} {
		if change != nil {
			change(t)
		}
		for n := range 40 {
			key := fmt.Sprintf("c-%d-%d", n%4, n%10)
			if status, answer := l.put(d.client, key, 200); status != http.StatusOK {
				t.Fatalf("PUT: %d %.200s", status, answer)
			}
			if _, ok := newest[key]; !ok {
				newest[key] = 0
			}
		}
		neverBack(t, d.client, newest)
	}
	d.drained(t, drainLimit)
	neverBack(t, d.client, newest)
}

func neverBack(t *testing.T, c *client, newest map[string]float64) {
	t.Helper()
	for key, before := range newest {
		now := updatedAt(t, c, key)
		if now < before {
			t.Errorf("updated_at of %s goes back by %.0f s", key, before-now)
		}
		newest[key] = now
	}
}

// A copy does not stay fresh for a year after somebody set the clock back by one: a
// read sees another host's write as soon as ever (contract 19).
func TestClockSetBackKeepsNothingFresh(t *testing.T) {
	for _, offset := range []time.Duration{year, -year} {
		t.Run("by "+offset.String(), func(t *testing.T) {
			up := newUpstream(t)
			d := start(t, t.TempDir(), up, "--cache-fresh-for", "300ms", "--cache-stale-while-revalidate", "0s", "--cache-absent-for", "300ms")
			clock := newWallClock(t, d)
			other := newClient(t, up.url())
			l := newLedger()
			l.put(d.client, "mine", 100)
			d.drained(t, drainLimit)
			l.put(other, "theirs", 100)
			for _, key := range []string{"mine", "theirs", "absent"} {
				if _, err := d.get(key); err != nil {
					t.Fatal(err)
				}
			}
			clock.set(t, d, offset)
			for _, key := range []string{"mine", "theirs", "absent"} {
				l.put(other, key, 200)
				eventually(t, time.Minute, "another host's write to "+key+" is seen", func() error {
					text, err := d.get(key)
					if err == nil {
						err = l.check(key, text)
					}
					return err
				})
			}
		})
	}
}
