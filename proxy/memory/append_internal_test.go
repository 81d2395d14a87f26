package memory

import (
	"testing"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// contract 5: a write that comes between the look at an entry and the update stays.
func TestAnUpdateIsOfTheNewestState(t *testing.T) {
	r, k, first := newRig(t), id("n", "k"), true
	r.put(k, "a")
	_, err := r.Update(t.Context(), &Request{Verb: PutEntry, ID: k}, func(item *cache.Item) (journal.NewWrite, error) {
		if first {
			first = false
			r.put(k, "b")
		}
		value, err := appended(item, ",", "c")
		return NewPut(k, value), err
	})
	noError(t, err)
	r.wantValue(k, "b,c")
}
