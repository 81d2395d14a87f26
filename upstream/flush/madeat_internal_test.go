package flush

import (
	"testing"

	"github.com/botwired/botwired/journal"
)

// A version names a later time than the state that its writer knew, even if this host's clock is behind. A copy
// of an older state keeps its own.
func TestAVersionIsLaterThanItsBase(t *testing.T) {
	base := journal.Base{Known: true, Present: true, MadeAt: 20}
	for name, row := range map[string]struct {
		write journal.Write
		base  journal.Base
		want  float64
	}{
		"the clock is behind": {journal.Write{WrittenAt: 10}, base, 20 + timeTick},
		"later":               {journal.Write{WrittenAt: 30}, base, 30},
		"nothing is known":    {journal.Write{WrittenAt: 10}, journal.Base{MadeAt: 20}, 10},
		"a copy":              {journal.Write{WrittenAt: 10, LosesTies: true}, base, 10},
		"a fenced write":      {journal.Write{WrittenAt: 10, Fenced: true}, base, 10},
	} {
		if got := madeAt(row.write, row.base); got != row.want {
			t.Errorf("%s: it was made at %f, want %f", name, got, row.want)
		}
	}
}
