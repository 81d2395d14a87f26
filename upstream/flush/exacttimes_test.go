package flush_test

import (
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// contract 17: a copy has the time of its version, even if a pending write over it was made before and
// has a later time. Otherwise it would seem newer than what another host writes between the two.
func TestACopyHasTheTimeOfItsVersion(t *testing.T) {
	for name, row := range map[string]struct {
		value   string
		prepare func(v *versioned)
		write   journal.NewWrite
	}{
		"lost":                        {"mine", func(*versioned) {}, journal.NewWrite{LosesTies: true, Fenced: true}},
		"lost, an import":             {"mine", func(*versioned) {}, journal.NewWrite{Fenced: true}},
		"the same value":              {"theirs", func(*versioned) {}, journal.NewWrite{LosesTies: true, Fenced: true}},
		"lost, over a copy":           {"mine", func(v *versioned) { v.settledPut(key("k"), "base") }, journal.NewWrite{Fenced: true}},
		"the same value, over a copy": {"theirs", func(v *versioned) { v.settledPut(key("k"), "base") }, journal.NewWrite{Fenced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			exact(t, func(t *testing.T, v *versioned) {
				row.prepare(v)
				time.Sleep(time.Hour)
				v.seat.lag = time.Hour // the host has not heard of it
				theirs := v.seat.foreign(key("k"), journal.Put, "theirs", time.Now().Add(-time.Minute))
				w := row.write
				w.ID, w.Op, w.Value, w.ListBytes = key("k"), journal.Put, row.value, len(row.value)
				w.WrittenAt = float64(time.Now().Add(-30 * time.Minute).Unix())
				v.append(w)
				v.settleWithin(time.Minute)
				v.wantKnown(key("k"), "theirs", journal.Settled)
				if state, err := v.journal.Lookup(key("k")); err != nil || state.UpdatedAt != theirs.WrittenAt {
					t.Errorf("the copy is of %f, %v, and the version of %f", state.UpdatedAt, err, theirs.WrittenAt)
				}
				v.wantNow(key("k"), "theirs", false)
			})
		})
	}
}

// contract 17: a host's write wins over its own earlier one even if the clock was set back and the copy is gone.
func TestAClockThatWasSetBack(t *testing.T) {
	exact(t, func(t *testing.T, v *versioned) {
		write := func(op journal.Op, value string, at time.Time) {
			v.append(journal.NewWrite{ID: key("k"), Op: op, Value: value, ListBytes: len(value), At: upstream.Unix(at)})
			v.settleWithin(time.Minute)
		}
		write(journal.Delete, "", time.Now().Add(time.Hour))
		write(journal.Put, "new", time.Now())
		v.wantNow(key("k"), "new", false)
		v.stop()
		v.wantFences(map[string]int{"absent": 1, "won": 1})
	})
}
