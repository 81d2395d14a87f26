package memory

import (
	"fmt"
	"testing"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// An undo goes by the state that it has read. A pending write that came since may be gone again when the undo is
// written: it looks again.
func TestAWriteBetweenReadAndUndo(t *testing.T) {
	put := func(state journal.PastState, value string) Version {
		return Version{Past: journal.Past{State: state, Op: journal.Put, Value: value}}
	}
	shows := func(value string) *cache.Item {
		return &cache.Item{Body: fmt.Appendf(nil, `{"value":%q,"updated_at":1}`, value)}
	}
	for name, row := range map[string]struct {
		first Version
		now   *cache.Item
		later bool
	}{
		"the same":               {put(journal.PastPending, "a"), shows("a"), false},
		"both are absent":        {Version{Past: journal.Past{State: journal.PastPending, Op: journal.Delete}}, &cache.Item{}, false},
		"another value":          {put(journal.PastPending, "b"), shows("a"), true},
		"a put of an absent one": {put(journal.PastPending, ""), &cache.Item{}, true},
		"a delete":               {Version{Past: journal.Past{State: journal.PastPending, Op: journal.Delete}}, shows(""), true},
		"what upstream has":      {put(journal.PastSettled, "b"), shows("a"), false},
	} {
		if isLater(&row.first, row.now) != row.later {
			t.Errorf("%s: later %t", name, !row.later)
		}
	}
}
