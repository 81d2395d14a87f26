//go:build faults && linux

package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	diskSize    = 96 << 20
	diskReserve = 32 << 20
	// fillAtMost bounds how many writes may be needed to fill anything here.
	fillAtMost = 20_000
)

// fill writes new keys from several callers until each is refused, checks the
// refusals, and returns their number.
func fill(t *testing.T, l *ledger, d *daemon, prefix string, size int) (refused int) {
	t.Helper()
	before := l.answered(http.StatusInsufficientStorage)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range fillAtMost / 4 {
				status, answer := l.put(d.client, fmt.Sprintf("%s-%d-%d", prefix, w, i), size)
				if status == http.StatusOK {
					continue
				}
				if status != http.StatusInsufficientStorage || !isDetail(answer) {
					t.Errorf("a full disk is answered %d %.200s", status, answer)
				}
				return
			}
			t.Errorf("%d writes and no 507", fillAtMost)
		})
	}
	writers.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return l.answered(http.StatusInsufficientStorage) - before
}

// refuses checks that writes, old keys and new, are refused and that reads go on.
func refuses(t *testing.T, l *ledger, d *daemon, size int) {
	t.Helper()
	acked := l.answered(http.StatusOK)
	for i, key := range append(l.keys()[:8], "new-1", "new-2") {
		if status, answer := l.put(d.client, key, size+i); status != http.StatusInsufficientStorage || !isDetail(answer) {
			t.Errorf("PUT while full: %d %.200s", status, answer)
		}
	}
	if more := l.answered(http.StatusOK) - acked; more != 0 {
		t.Errorf("%d writes were taken", more)
	}
	if err := d.ready(http.StatusServiceUnavailable); err != nil {
		t.Error(err)
	}
	if err := d.expect(http.MethodGet, "/_botwired/livez", http.StatusOK); err != nil {
		t.Error(err)
	}
	l.audit(t, "the daemon while full", d.client)
	d.lives(t)
}

// recovers waits until writes are taken again, and gives every key a newer value.
func recovers(t *testing.T, l *ledger, d *daemon, size int) {
	t.Helper()
	eventually(t, 30*time.Second, "ready again", func() error { d.lives(t); return d.ready(http.StatusOK) })
	for _, key := range l.keys() {
		eventually(t, 10*time.Second, "a write is taken again", func() error {
			d.lives(t)
			if status, answer := l.put(d.client, key, size); status != http.StatusOK {
				return fmt.Errorf("PUT %s: %d %.200s", key, status, answer)
			}
			return nil
		})
	}
	d.drained(t, 30*time.Second)
}

// The disk fills up, first down to the reserve by the daemon's own writes, then to the
// last byte by somebody else's (contract 3).
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, diskSize)
	up := newUpstream(t)
	up.down(t)
	d := start(t, filepath.Join(disk, "data"), up, "--journal-disk-reserve", fmt.Sprint(diskReserve), "--journal-max-bytes", "1GiB")
	l := newLedger()

	refused := fill(t, l, d, "fill", 60_000)
	t.Logf("%d writes taken, %d refused with 507, %.1f MiB free", l.answered(200), refused, mib(freeBytes(t, disk)))
	refuses(t, l, d, 60_000)

	foreign := fillUp(t, disk)
	refuses(t, l, d, 60_000)
	time.Sleep(time.Second) // the flusher's probes go on: they must not need the disk
	refuses(t, l, d, 60_000)

	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	up.up(t)
	d.drained(t, 60*time.Second)
	recovers(t, l, d, 1000)
	t.Logf("drained: %.1f MiB free, %d refusals in all", mib(freeBytes(t, disk)), l.answered(http.StatusInsufficientStorage))
	l.audit(t, "the daemon", d.client)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
