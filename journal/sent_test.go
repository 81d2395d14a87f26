package journal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// contract 14: after a crash the sent contents are known, each once, even for an entry whose write has
// become a dead letter meanwhile.
func TestSentMarksSayWhatWasSent(t *testing.T) {
	content := func(value string) journal.Content { return journal.ContentOf(journal.Put, value) }
	gone := journal.ContentOf(journal.Delete, "")
	for name, row := range map[string]struct {
		use  func(*testing.T, *journal.Journal, journal.Write)
		want []journal.Doubtful
	}{
		"sent": {func(*testing.T, *journal.Journal, journal.Write) {}, []journal.Doubtful{{ID: key("a"), Contents: []journal.Content{content("1"), gone, content("0")}}}},
		"sent again": {func(t *testing.T, j *journal.Journal, _ journal.Write) {
			no(t, j.MarkSent(remove(t, j, key("a")), content("1")))
		}, []journal.Doubtful{{ID: key("a"), Contents: []journal.Content{gone, content("1")}}}},
		"dropped": {func(t *testing.T, j *journal.Journal, w journal.Write) {
			no(t, j.DeadLetter(w, journal.Failure{Kind: journal.Dropped, InDoubt: true, MayLand: true}))
		}, []journal.Doubtful{{ID: key("a"), Contents: []journal.Content{content("1"), gone, content("0")}}}},
		"refused, with a newer one": {func(t *testing.T, j *journal.Journal, w journal.Write) {
			put(t, j, key("a"), "2")
			no(t, j.DeadLetter(w, journal.Failure{Status: 400, InDoubt: true}))
		}, []journal.Doubtful{{ID: key("a"), Contents: []journal.Content{content("1"), gone, content("0")}}}},
		"refused": {func(t *testing.T, j *journal.Journal, w journal.Write) {
			no(t, j.DeadLetter(w, journal.Failure{Status: 400}))
		}, nil},
		"never marked": {func(t *testing.T, j *journal.Journal, w journal.Write) {
			no(t, j.Settle(w))
			other := put(t, j, key("b"), "1")
			no(t, j.DeadLetter(other, journal.Failure{Kind: journal.Dropped, InDoubt: true, MayLand: true}))
		}, []journal.Doubtful{{ID: key("b")}}},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			j := open(t, fs)
			w := put(t, j, key("a"), "1")
			no(t, j.MarkSent(w, gone, content("0"), content("1"), gone))
			row.use(t, j, w)
			for _, j := range []*journal.Journal{j, reopen(t, crash(fs))} {
				doubts, err := j.InDoubt()
				no(t, err)
				if diff := cmp.Diff(row.want, doubts); diff != "" {
					t.Errorf("in doubt (-want +got):\n%s", diff)
				}
			}
		})
	}
}
