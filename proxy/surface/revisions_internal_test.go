package surface

import (
	"fmt"
	"testing"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
)

// An undo goes by the state that it has read. A pending write that came since may be gone again when the undo is
// written: it looks again.
func TestAWriteBetweenReadAndUndo(t *testing.T) {
	text := func(s string) *string { return &s }
	shows := func(value string) *cache.Item {
		return &cache.Item{Body: fmt.Appendf(nil, `{"value":%q,"updated_at":1}`, value)}
	}
	for name, row := range map[string]struct {
		first api.Revision
		now   *cache.Item
		later bool
	}{
		"the same":               {api.Revision{State: "pending", Value: text("a")}, shows("a"), false},
		"both are absent":        {api.Revision{State: "pending"}, &cache.Item{}, false},
		"another value":          {api.Revision{State: "pending", Value: text("b")}, shows("a"), true},
		"a put of an absent one": {api.Revision{State: "pending", Value: text("")}, &cache.Item{}, true},
		"a delete":               {api.Revision{State: "pending"}, shows(""), true},
		"what upstream has":      {api.Revision{State: "settled", Value: text("b")}, shows("a"), false},
	} {
		if isLater(&row.first, row.now) != row.later {
			t.Errorf("%s: later %t", name, !row.later)
		}
	}
}
