package flush_test

import (
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
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
