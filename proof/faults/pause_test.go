//go:build faults && linux

package faults

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// pauseFor is how long the process stands still: BOTWIRED_FAULTS_PAUSE, such as 1m, for
// long runs.
func pauseFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("BOTWIRED_FAULTS_PAUSE")
	if text == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A process stands still with requests in flight, and upstream carries them out meanwhile.
// Some answers come in time, some too late, and upstream carries some requests out only after
// the process goes on. No write is lost, and no old one is left in the place of a newer one
// (contract 14, 17, 19). While upstream answers in time, no old one ever takes that place.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond} {
		t.Run("upstream takes "+delay.String(), func(t *testing.T) { t.Parallel(); pauseAndResume(t, delay) })
	}
}

func pauseAndResume(t *testing.T, delay time.Duration) {
	up := newUpstream(t)
	up.delay.Store(int64(delay))
	up.quick.Store(true) // or no write would be sent while upstream takes too long: each is compared first
	const timeout = 500 * time.Millisecond
	// Upstream needs less than the late window, so a late request is repaired.
	d := start(t, t.TempDir(), up, "--upstream-timeout", timeout.String(), "--upstream-late-window", "1500ms")
	l := newLedger()
	writers := l.write(t, d.client, "p", 4, 5, 200)
	eventually(t, time.Minute, "load", func() error { return l.reached(200) })
	eventually(t, time.Minute, "requests upstream", func() error {
		if n := up.arrived.Load(); n < 10 {
			return fmt.Errorf("%d writes have arrived upstream", n)
		}
		return nil
	})
	for range 2 {
		d.signal(t, syscall.SIGSTOP)
		time.Sleep(pauseFor(t))
		d.signal(t, syscall.SIGCONT)
		before := l.answered(200)
		eventually(t, time.Minute, "writes go on", func() error { return l.reached(before + 200) })
	}
	writers.end()
	t.Logf("%d writes taken, %d arrived upstream, %d without an answer", l.answered(200), up.arrived.Load(), l.answered(0))
	up.delay.Store(0)
	d.drained(t, drainLimit)
	if delay < timeout {
		up.inOrder(t)
	}
	l.audit(t, "the daemon", d.client)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}
