//go:build faults && linux

package faults

import (
	"syscall"
	"testing"
	"time"
)

// SIGTERM comes under load, with an upstream too slow for all writes. The daemon ends
// in time with 0 and keeps the rest, and a restart carries it upstream (contract 22).
func TestTerminateUnderLoad(t *testing.T) {
	const drain = 2 * time.Second // the answers to the last callers included
	up := newUpstream(t)
	up.delay.Store(int64(400 * time.Millisecond))
	dir := t.TempDir()
	d := start(t, dir, up, "--flush-drain-timeout", drain.String(), "--upstream-concurrency", "2")
	l := newLedger()
	writers := l.write(t, d.client, "s", 8, 20, 200)
	eventually(t, time.Minute, "load", func() error { return l.reached(500) })
	asked := time.Now()
	d.signal(t, syscall.SIGTERM)
	code := d.waitExit(t, time.Minute)
	took := d.ExitedAt().Sub(asked)
	writers.end()
	if code != 0 || took > drain+slack(t) {
		t.Errorf("exit code %d after %s, want 0 within %s and a little:\n%s", code, took, drain, d.Tail())
	}
	if lines := d.complaints(); len(lines) > 0 {
		t.Errorf("said on stderr: %q", lines)
	}
	up.down(t) // from here on, every answer is the daemon's own
	d = start(t, dir, up)
	var kept int
	eventually(t, time.Minute, "the pending writes are counted", func() (err error) {
		kept, err = d.pending()
		return err
	})
	if kept == 0 {
		t.Error("nothing is pending after the restart: upstream was too fast for the test")
	}
	l.audit(t, "the restarted daemon", d.client)
	t.Logf("%d writes taken, ended after %.0f ms, %d entries kept", l.answered(200), ms(took), kept)
	up.delay.Store(0)
	up.up(t)
	d.drained(t, drainLimit)
	up.inOrder(t)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

// A second signal ends the daemon at once, and no acknowledged write is lost (contract
// 22).
func TestSecondSignal(t *testing.T) {
	up := newUpstream(t)
	up.delay.Store(int64(400 * time.Millisecond))
	dir := t.TempDir()
	d := start(t, dir, up, "--flush-drain-timeout", "1m", "--upstream-concurrency", "1")
	l := newLedger()
	writers := l.write(t, d.client, "s", 4, 100, 200)
	eventually(t, time.Minute, "load", func() error { return l.reached(400) })
	d.signal(t, syscall.SIGTERM)
	time.Sleep(300 * time.Millisecond)
	d.lives(t)
	asked := time.Now()
	d.signal(t, syscall.SIGTERM)
	d.waitExit(t, time.Minute)
	took := d.ExitedAt().Sub(asked)
	writers.end()
	t.Logf("ended %.1f ms after the second signal", ms(took))
	if took > time.Second+slack(t) {
		t.Errorf("ended %s after the second signal", took)
	}
	up.down(t)
	up.delay.Store(0)
	soundAfterwards(t, dir, up, l)
}
