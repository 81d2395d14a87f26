package flush_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// contract 17: once a fence has asked, its answer counts. Other entries' writes may have shown
// meanwhile that upstream is slow, so that the write would no longer be compared.
func TestAFenceThatHasAskedGoesByTheAnswer(t *testing.T) {
	const slow, asking = 3700 * time.Millisecond, 1600 * time.Millisecond
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("calibrates"), "v")
		time.Sleep(time.Minute)
		asked := 0
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				switch {
				case c.id.Namespace != "ns" && c.write():
					return reply{after: slow}
				case c.id == key("k") && c.method == http.MethodGet:
					if asked++; asked == 2 {
						return reply{after: asking}
					}
				}
				return reply{}
			}
		})
		for i := range 10 {
			r.put(journal.ID{Namespace: fmt.Sprint("n", i), Key: "k"}, "v")
		}
		time.Sleep(2 * time.Second)
		r.settledUrgently(key("k"), "base")
		r.foreign(key("k"), "theirs")
		time.Sleep(100 * time.Millisecond)
		r.put(key("k"), "local")
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "local")
		r.wantLetters(letter{"superseded", true, journal.Put, "theirs", "local"})
	})
}

// settledUrgently puts a value and waits until it settles. Other writes may stay pending.
func (r *rig) settledUrgently(id journal.ID, value string) {
	r.t.Helper()
	w := r.put(id, value)
	if !r.flusher.Await(r.t.Context(), id, w.Seq) {
		r.t.Fatal("it has not settled")
	}
}
