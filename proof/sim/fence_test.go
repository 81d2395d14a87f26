package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

var fenceRounds = flag.Int("fence.rounds", 100/fewer, "how many lives of several hosts are played, of each kind")

// skews are how far the clock of the first host is ahead of upstream's. The second one's is
// 5 s before or behind it.
var skews = []time.Duration{0, 700 * time.Millisecond, -3 * time.Second, time.Hour, -26 * time.Hour}

// joinTwo adds two hosts whose clocks are 5 s apart.
func (r *realm) joinTwo() error {
	skew, other := skews[r.rng.IntN(len(skews))], 5*time.Second
	if r.rng.IntN(2) == 0 {
		other = -other
	}
	_, err := r.join(vfs.NewCrashableMem(), skew)
	if err == nil {
		_, err = r.join(vfs.NewCrashableMem(), skew+other)
	}
	return err
}

// begin has the hosts write the shared entries, and all read them: what a host has never known,
// and what is older than its start, it overwrites as a direct connection would.
func (r *realm) begin() error {
	for _, id := range shared {
		if err := r.put(r.rng.IntN(len(r.hosts)), id); err != nil {
			return err
		}
	}
	if err := r.settle(r.hosts...); err != nil {
		return err
	}
	for _, h := range r.hosts {
		for _, id := range shared {
			if _, err := h.insists(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Two hosts whose clocks are 5 s apart write the same entries, and one of them is cut off for a
// while and may crash. The later write by time is what upstream and then both hold, and every
// loser can be listed with its value (contract 17).
func TestTheLaterWriteWins(t *testing.T) {
	inRealm(t, *fenceRounds, func(r *realm) error {
		if err := errors.Join(r.joinTwo(), r.begin()); err != nil {
			return err
		}
		contest := r.since()
		if err := r.cutOneOff(4 + r.rng.IntN(20)); err != nil {
			return err
		}
		return r.judge(contest())
	})
}

// cutOneOff cuts one of two hosts off while both write, and returns when nothing is pending.
func (r *realm) cutOneOff(events int) error {
	away := r.hosts[r.rng.IntN(2)]
	away.cut(true)
	err := r.contend(events)
	time.Sleep(apart)
	away.cut(false)
	return errors.Join(err, r.settle(r.hosts...))
}

// A data directory is copied while the daemon is cut off, and started a second time when
// upstream holds something newer. That survives (contract 17, 19).
func TestACopiedDirectory(t *testing.T) {
	inRealm(t, *fenceRounds, func(r *realm) error {
		if err := errors.Join(r.joinTwo(), r.begin()); err != nil {
			return err
		}
		original := r.hosts[0]
		original.cut(true)
		for _, id := range shared {
			time.Sleep(apart)
			if err := r.put(0, id); err != nil {
				return err
			}
		}
		copied := original.copyOf(r.rng)
		if err := original.again(true, 0); err != nil {
			return err
		}
		time.Sleep(apart)
		original.cut(false)
		if err := r.settle(original); err != nil {
			return err
		}
		for _, id := range shared { // something newer, by the original or by a third
			time.Sleep(apart)
			if err := r.put(r.rng.IntN(2), id); err != nil {
				return err
			}
		}
		if err := r.settle(r.hosts...); err != nil {
			return err
		}
		time.Sleep(apart)
		second, err := r.join(copied, original.with.skew)
		if err != nil {
			return err
		}
		if err := errors.Join(r.settle(r.hosts...), r.judge(nil)); err != nil {
			return err
		}
		for _, id := range shared {
			if lost, err := second.losers(id); err != nil || len(lost) != 1 {
				return fmt.Errorf("contract 17: the copy lists %v of %s (%w)", lost, id, err)
			}
		}
		return nil
	})
}

// Two copies of one data directory are at work on one upstream, and now the one is cut off,
// now the other. Nothing is lost silently: the later write by time stays, and every other one
// can be listed with its value (contract 17, 19).
func TestTwoCopiesOfADirectory(t *testing.T) {
	inRealm(t, *fenceRounds, func(r *realm) error {
		skew := skews[r.rng.IntN(len(skews))]
		original, err := r.join(vfs.NewCrashableMem(), skew)
		if err != nil {
			return err
		}
		if err := r.begin(); err != nil {
			return err
		}
		original.cut(r.rng.IntN(2) == 0)
		for _, id := range shared {
			if time.Sleep(apart); r.rng.IntN(2) == 0 {
				if err := r.put(0, id); err != nil {
					return err
				}
			}
		}
		time.Sleep(apart)
		if _, err := r.join(original.copyOf(r.rng), skew); err != nil {
			return err
		}
		original.cut(false)
		time.Sleep(requestTimeout + lateWindow) // the copy waits until nothing of the original's can land, and sends what both have
		for range 2 {
			contest := r.since() // what was written before the copy was made is both hosts' own
			if err := r.cutOneOff(2 + r.rng.IntN(8)); err != nil {
				return err
			}
			if err := r.judge(contest()); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyOf is a copy of a host's disk, as it is now.
func (h *host) copyOf(rng *rand.Rand) *vfs.MemFS {
	return h.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
}

// standingStill is an engine of a process that stands still for a while at some moments.
type standingStill struct {
	upstream.Engine
	stop func()
}

func (e *standingStill) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	v, err := e.Engine.Get(ctx, id)
	e.stop()
	return v, err
}

// A process with pending writes stands still for 20 s, before or while it looks at upstream, and
// another host writes meanwhile. The later write by time stays (contract 17, 19).
func TestAProcessThatStandsStill(t *testing.T) {
	inRealm(t, *fenceRounds, func(r *realm) error {
		if err := r.joinTwo(); err != nil {
			return err
		}
		if err := r.begin(); err != nil {
			return err
		}
		stopped := r.hosts[0]
		var left atomic.Int64
		left.Store(1 + r.rng.Int64N(3))
		began := make(chan struct{})
		stopped.with.engine = func(e upstream.Engine) upstream.Engine {
			return &standingStill{e, func() {
				if left.Add(-1) == 0 {
					close(began)
					time.Sleep(20 * time.Second)
				}
			}}
		}
		if err := stopped.again(false, 0); err != nil {
			return err
		}
		for _, id := range shared {
			if err := r.put(0, id); err != nil {
				return err
			}
		}
		<-began
		time.Sleep(apart)
		for _, id := range shared {
			if err := r.put(1, id); err != nil {
				return err
			}
		}
		return errors.Join(r.settle(r.hosts...), r.judge(r.wrote))
	})
}
