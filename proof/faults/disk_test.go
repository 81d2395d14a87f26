//go:build faults && linux

package faults

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/numbered"
)

const (
	diskSize    = 96 << 20
	diskReserve = 32 << 20
	// fillAtMost bounds the number of writes that fill anything here.
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

// fillForGood fills a disk until the daemon has nothing left to give up. For a while it
// makes room from garbage and copies.
func fillForGood(t *testing.T, l *ledger, d *daemon, prefix string, size int) (refused int) {
	t.Helper()
	dry := 0
	for round := range 40 {
		before := l.answered(http.StatusOK)
		refused += fill(t, l, d, fmt.Sprintf("%s-%d", prefix, round), size)
		if l.answered(http.StatusOK) > before {
			dry = 0
		} else if dry++; dry == 2 {
			return refused
		}
		time.Sleep(2 * time.Second)
	}
	t.Fatal("the disk does not fill up")
	return 0
}

// refuses checks that the daemon refuses writes, to old keys and new, and that reads go
// on.
func refuses(t *testing.T, l *ledger, d *daemon, size int) {
	t.Helper()
	acked := l.answered(http.StatusOK)
	keys := l.keys() // few or none where the disk refused at once
	for _, key := range append(keys[:min(8, len(keys))], "new-1", "new-2") {
		// Larger than the value that it replaces: one of the same size would need no room.
		if status, answer := l.put(d.client, key, size+100); status != http.StatusInsufficientStorage || !isDetail(answer) {
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

// recovers waits until the daemon takes writes again, and gives every key a newer
// value.
func recovers(t *testing.T, l *ledger, d *daemon, size int) {
	t.Helper()
	eventually(t, time.Minute, "ready again", func() error { d.lives(t); return d.ready(http.StatusOK) })
	for _, key := range l.keys() {
		eventually(t, time.Minute, "a write is taken again", func() error {
			d.lives(t)
			if status, answer := l.put(d.client, key, size); status != http.StatusOK {
				return fmt.Errorf("PUT %s: %d %.200s", key, status, answer)
			}
			return nil
		})
	}
	d.drained(t, drainLimit)
}

// recoversFrom gives back the room: the daemon takes writes again, carries all upstream and has lost none.
func recoversFrom(t *testing.T, foreign string, d *daemon, up *fakeUpstream, l *ledger) {
	t.Helper()
	giveBack(t, []string{foreign})
	eventually(t, drainLimit, "ready with room", func() error { d.lives(t); return d.ready(http.StatusOK) })
	d.drained(t, drainLimit)
	l.audit(t, "the daemon, once there was room", d.client)
	recovers(t, l, d, 1000)
	l.audit(t, "the daemon", d.client)
	l.audit(t, "upstream", newClient(t, up.url()))
}

// The disk fills up: down to the reserve by the daemon's own writes, then to the last
// byte by another program (contract 3).
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, diskSize)
	up := newUpstream(t)
	up.down(t)
	d := start(t, filepath.Join(disk, "data"), up, "--journal-disk-reserve", fmt.Sprint(diskReserve), "--journal-max-bytes", "1GiB")
	l := newLedger()

	refused := fillForGood(t, l, d, "fill", 60_000)
	t.Logf("%d writes taken, %d refused with 507, %.1f MiB free", l.answered(200), refused, mib(freeBytes(t, disk)))
	refuses(t, l, d, 60_000)

	foreign := fillUp(t, disk)
	refuses(t, l, d, 60_000)
	time.Sleep(time.Second) // the flusher's probes go on: they must not need the disk
	refuses(t, l, d, 60_000)

	up.up(t)
	recoversFrom(t, foreign, d, up, l)
	t.Logf("drained: %.1f MiB free, %d refusals in all", mib(freeBytes(t, disk)), l.answered(http.StatusInsufficientStorage))
	d.terminate(t)
}

// The daemon's own writes leave room for a start after a kill. Once another program has taken the last byte of the
// disk, the daemon refuses writes and answers all else for as long as that lasts, also when upstream is back. A daemon
// that is killed there waits for room at its next start (contract 3).
func TestDiskFilledBeyondTheReserve(t *testing.T) {
	disk := smallDisk(t, 2*diskSize)
	up := newUpstream(t)
	up.down(t)
	data := filepath.Join(disk, "data")
	flags := []string{"--journal-max-bytes", "1GiB"} // and the default reserve
	d := start(t, data, up, flags...)
	l := newLedger()
	fill(t, l, d, "fill", 60_000)
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, drainLimit)
	d = start(t, data, up, flags...)
	l.audit(t, "the daemon, started at the reserve", d.client)
	up.up(t)
	d.drained(t, drainLimit)
	up.down(t)
	fill(t, l, d, "again", 60_000) // much of it is in memory
	fillUp(t, disk)
	lines := len(d.Lines())
	slowest := answersPromptly(t, d, disk, l.keys()[0], 20*time.Second)
	lines = len(d.Lines()) - lines
	t.Logf("%d writes taken; %d lines logged in 20s with no room; slowest answer %.0f ms", l.answered(http.StatusOK), lines, ms(slowest))
	if lines > 50 {
		t.Errorf("%d lines were logged in 20s: a log on the full disk, or a log that is paid for, is a fault of its own", lines)
	}
	up.up(t)
	time.Sleep(time.Second) // the flusher waits: a record of what it does may not fit
	refuses(t, l, d, 60_000)
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, drainLimit)
	foreign := fillUp(t, disk) // also what the daemon had removed and still held open
	d = start(t, data, up, flags...)
	refusesAll(t, d, data)
	recoversFrom(t, foreign, d, up, l)
	d.terminate(t)
}

// Another program has taken the last byte of the disk when the daemon is started. It says so and answers,
// ends when it is told to, and goes on by itself once there is room (contract 3).
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	startsWithRoom(t, smallDisk(t, 2*diskSize), fillUp)
}

func startsWithRoom(t *testing.T, disk string, fillUp func(t *testing.T, disk string) (foreign string)) {
	t.Helper()
	up := newUpstream(t)
	up.down(t)
	data := filepath.Join(disk, "data")
	flags := []string{"--journal-disk-reserve", fmt.Sprint(diskReserve)}
	d := start(t, data, up, flags...)
	l := newLedger()
	for i := range 100 {
		if status, answer := l.put(d.client, fmt.Sprintf("before-%d", i), 10_000); status != http.StatusOK {
			t.Fatalf("%d %.200s", status, answer)
		}
	}
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, drainLimit)
	foreign := fillUp(t, disk)
	for range 2 {
		d = start(t, data, up, flags...)
		refusesAll(t, d, data)
		d.terminate(t)
	}
	d = start(t, data, up, flags...)
	refusesAll(t, d, data)
	up.up(t)
	recoversFrom(t, foreign, d, up, l)
	d.terminate(t)
}

// The journal's folder is a link to another disk: only that one counts, when the daemon starts and later
// (contract 3).
func TestJournalOnAnotherDisk(t *testing.T) {
	t.Parallel()
	above, disk := smallDisk(t, diskSize), smallDisk(t, 2*diskSize)
	up := newUpstream(t)
	up.down(t)
	data := filepath.Join(above, "data")
	if err := errors.Join(os.MkdirAll(filepath.Join(disk, "journal"), 0o700), os.Mkdir(data, 0o700),
		os.Symlink(filepath.Join(disk, "journal"), filepath.Join(data, "journal"))); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--journal-disk-reserve", fmt.Sprint(diskReserve), "--journal-max-bytes", "1GiB"}
	d := start(t, data, up, flags...)
	l := newLedger()
	l.put(d.client, "before", 10_000)
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, drainLimit)
	fillUp(t, above)

	d = start(t, data, up, flags...)
	eventually(t, time.Minute, "ready with room", func() error { d.lives(t); return d.ready(http.StatusOK) })
	fillForGood(t, l, d, "fill", 60_000)
	foreign := fillUp(t, disk)
	refuses(t, l, d, 60_000)
	up.up(t)
	recoversFrom(t, foreign, d, up, l)
	d.terminate(t)
}

// A disk without a free inode is a full disk, for a running daemon and for one that starts, also for the
// first time.
func TestNoFreeInode(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 2*diskSize, "nr_inodes=150")
	up := newUpstream(t)
	data := filepath.Join(disk, "data")
	flags := []string{"--journal-disk-reserve", fmt.Sprint(diskReserve)}
	foreign := takeInodes(t, disk, 150)
	d := start(t, data, up, flags...)
	refusesAll(t, d, data)
	giveBack(t, foreign)
	eventually(t, time.Minute, "ready with room", func() error { d.lives(t); return d.ready(http.StatusOK) })

	l := newLedger()
	for i := range 20 {
		if status, answer := l.put(d.client, fmt.Sprintf("before-%d", i), 1000); status != http.StatusOK {
			t.Fatalf("%d %.200s", status, answer)
		}
	}
	foreign = takeInodes(t, disk, 150)
	time.Sleep(time.Second) // the free room is measured anew
	refuses(t, l, d, 1000)
	giveBack(t, foreign)
	recovers(t, l, d, 1000)

	foreign = takeInodes(t, disk, 150)
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, drainLimit)
	d = start(t, data, up, flags...)
	refusesAll(t, d, data)
	giveBack(t, foreign)
	recovers(t, l, d, 1000)
	d.terminate(t)

	// The journal has too few to open, and waits for them.
	foreign = takeInodes(t, disk, 150)
	giveBack(t, foreign[:3])
	d = start(t, data, up, flags...)
	d.lives(t)
	giveBack(t, foreign[3:])
	recovers(t, l, d, 1000)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

// takeInodes makes up to n files, until the disk has no free inode.
func takeInodes(t *testing.T, disk string, n int) (files []string) {
	t.Helper()
	for i := range n {
		name := filepath.Join(disk, fmt.Sprintf("foreign-%d", i))
		switch err := os.WriteFile(name, nil, 0o600); {
		case errors.Is(err, syscall.ENOSPC):
			return files
		case err != nil:
			t.Fatal(err)
		}
		files = append(files, name)
	}
	t.Fatal("the disk has more inodes")
	return nil
}

func giveBack(t *testing.T, files []string) {
	t.Helper()
	for _, name := range files {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// refusesAll checks that a daemon that cannot open its journal lives and says why it does
// nothing else, in one line of its log and in every answer.
func refusesAll(t *testing.T, d *daemon, data string) {
	t.Helper()
	// A daemon that starts slowly answers before it has found that the disk is full.
	eventually(t, time.Minute, "the full disk is logged", func() error {
		d.lives(t)
		if log := d.Tail(); !strings.Contains(log, "the disk is full") {
			return errors.New(log)
		}
		return nil
	})
	if err := d.expect(http.MethodGet, "/_botwired/livez", http.StatusOK); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/_botwired/readyz", "/_botwired/status", entryPath("before-1"), "/memory/" + namespace, "/elsewhere"} {
		status, answer, err := d.do(http.MethodGet, path, nil)
		if err != nil || status != http.StatusServiceUnavailable || !isDetail(answer) || !strings.Contains(string(answer), "MiB needed in "+data) {
			t.Errorf("GET %s: %d %.200s (%v)", path, status, answer, err)
		}
	}
	if status, answer, err := d.put("before-1", "another"); err != nil || status != http.StatusServiceUnavailable || !isDetail(answer) {
		t.Errorf("PUT: %d %.200s (%v)", status, answer, err)
	}
	if log := d.Tail(); strings.Count(log, "the disk is full") != 1 || !strings.Contains(log, "nothing is lost") {
		t.Errorf("the log:\n%s", log)
	}
}

// answersPromptly reads for a while, asks whether the daemon is ready, and writes.
// Every answer comes within a second, and the daemon takes a write only if it has made
// room meanwhile.
func answersPromptly(t *testing.T, d *daemon, disk, known string, during time.Duration) (slowest time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, ask := range []func() (int, []byte, error){
			func() (int, []byte, error) { return d.do(http.MethodGet, entryPath(known), nil) },
			func() (int, []byte, error) { return d.do(http.MethodGet, "/_botwired/readyz", nil) },
			func() (int, []byte, error) { return d.do(http.MethodGet, "/_botwired/status", nil) },
			func() (status int, answer []byte, err error) {
				before := freeBytes(t, disk)
				status, answer, err = d.put("prompt", numbered.Value("prompt", 1, 60_000))
				if status == http.StatusOK && max(before, freeBytes(t, disk)) < diskReserve/4 {
					t.Error("a write was taken with no room for it")
				}
				return status, answer, err
			},
		} {
			began := time.Now()
			status, answer, err := ask()
			took := time.Since(began)
			d.lives(t)
			if slowest = max(slowest, took); took > time.Second && took > time.Second+slack(t) {
				t.Fatalf("no answer for %s, then %d %.200s (%v)", took, status, answer, err)
			}
		}
	}
	return slowest
}

// A disk that fills up and drains over and over has its room again each time: settled
// copies must not keep the next writes out (contract 3).
func TestFullDiskAgainAndAgain(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, diskSize)
	up := newUpstream(t)
	d := start(t, filepath.Join(disk, "data"), up, "--journal-disk-reserve", fmt.Sprint(diskReserve), "--journal-max-bytes", "1GiB")
	l := newLedger()
	first := 0
	for round := range 3 {
		up.down(t)
		before := l.answered(http.StatusOK)
		fillForGood(t, l, d, fmt.Sprintf("round-%d", round), 60_000)
		taken := l.answered(http.StatusOK) - before
		up.up(t)
		d.drained(t, drainLimit)
		t.Logf("round %d: %d writes taken; drained: %.1f MiB free", round, taken, mib(freeBytes(t, disk)))
		if first = max(first, taken); taken < first/4 {
			t.Errorf("round %d: %d writes taken, and %d before: with nothing pending, the disk stays full", round, taken, first)
		}
		eventually(t, drainLimit, "ready with nothing pending", func() error { return d.ready(http.StatusOK) })
	}
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

// fillExactly uses a budget up to the last byte: one entry shrinks, and another grows
// until it has the rest.
func fillExactly(t *testing.T, l *ledger, d *daemon, budget int) {
	t.Helper()
	const small = 1000 // bytes, and less than the large entry gives up
	large := l.keys()[0]
	for _, key := range []string{"half", "half2"} { // the rest is less than any later write then
		if status, answer := l.put(d.client, key, 5000); status != http.StatusOK && status != http.StatusInsufficientStorage {
			t.Fatalf("a write of half the size: %d %.200s", status, answer)
		}
	}
	if status, answer := l.put(d.client, large, 5000); status != http.StatusOK {
		t.Fatalf("a smaller write in place of a larger one: %d %.200s", status, answer)
	}
	if status, answer := l.put(d.client, "exactly", small); status != http.StatusOK {
		t.Fatalf("a write of %d bytes in the room of a smaller one: %d %.200s", small, status, answer)
	}
	status, err := d.status()
	if err != nil {
		t.Fatal(err)
	}
	rest := small + budget - status.PendingBytes
	if status, answer := l.put(d.client, "exactly", rest); status != http.StatusOK {
		t.Fatalf("a write that grows to %d bytes, and takes all that is left: %d %.200s", rest, status, answer)
	}
}

// The journal's own budget, with a disk that has room (contract 3).
func TestFullJournal(t *testing.T) {
	t.Parallel()
	up := newUpstream(t)
	up.down(t)
	d := start(t, t.TempDir(), up, "--journal-max-bytes", "1MiB")
	l := newLedger()
	refused := fill(t, l, d, "fill", 10_000)
	taken := l.answered(http.StatusOK)
	t.Logf("%d writes taken, %d refused with 507", taken, refused)
	if taken < 90 || taken > 105 {
		t.Errorf("%d writes of 10,000 bytes were taken into 1 MiB", taken)
	}
	fillExactly(t, l, d, 1<<20)
	refuses(t, l, d, 10_000)
	up.up(t)
	recovers(t, l, d, 10_000)
	l.audit(t, "the daemon", d.client)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
