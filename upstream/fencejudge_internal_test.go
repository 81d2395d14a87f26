package upstream

import (
	"math"
	"testing"

	"github.com/botwired/botwired/journal"
)

// The rows differ from the first question by a change or two: a put of "new" at 100 s, on the base
// "base" of 50 s, to which upstream's clock is between 4 and 6 s ahead.
func TestFenceJudges(t *testing.T) {
	put := func(value string) journal.Content { return journal.ContentOf(journal.Put, value) }
	shows := func(value string, at float64) func(*question) {
		return func(q *question) { q.found = &journal.Observation{Value: value, UpdatedAt: at} }
	}
	nothing := func(q *question) { q.found = nil }
	deletes := func(q *question) { q.write = journal.Write{Op: journal.Delete, WrittenAt: 100} }
	unseen := func(after float64) func(*question) { // upstream has not shown the base with its time
		return func(q *question) { q.base.Origin = journal.Origin{Seq: 3, After: after} }
	}
	blind := func(q *question) { q.base = journal.Base{} }
	absent := func(q *question) { q.base = journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")} }
	own := func(c journal.Content) func(*question) { return func(q *question) { q.own = append(q.own, c) } }
	may := func(q *question) { q.mayAsk = true }
	unknown := func(q *question) { q.unknown = true }
	resend := func(q *question) { q.resend = true }
	ignorant := func(q *question) { q.offset = anything }
	all := func(changes ...func(*question)) []func(*question) { return changes }
	for name, row := range map[string]struct {
		changes []func(*question)
		want    outcome
	}{
		"nobody has changed it":               {all(shows("base", 50)), fenceUnchanged},
		"a delete, nobody has changed it":     {all(deletes, shows("base", 50)), fenceUnchanged},
		"absent, a put":                       {all(nothing), fenceAbsent},
		"absent, a delete":                    {all(nothing, deletes), fenceHeld},
		"absent as known, a put":              {all(nothing, absent), fenceAbsent},
		"another host's, later":               {all(shows("theirs", 106.1)), fenceLost},
		"another host's, earlier":             {all(shows("theirs", 104)), fenceWon},
		"within the uncertainty":              {all(shows("theirs", 105)), fenceWon},
		"at its end":                          {all(shows("theirs", 106)), fenceWon},
		"within it, and another answer helps": {all(shows("theirs", 105), may), fenceUndecided},
		"beyond it, though":                   {all(shows("theirs", 106.1), may), fenceLost},
		"before it, though":                   {all(shows("theirs", 103.9), may), fenceWon},
		"nothing known of the clocks":         {all(shows("theirs", 1e9), ignorant), fenceWon},
		"a delete beaten by a put":            {all(deletes, shows("theirs", 107)), fenceLost},
		"a delete that beats a put":           {all(deletes, shows("theirs", 103)), fenceWon},
		"the old value again, later":          {all(shows("base", 107)), fenceLost},
		"the old value again, earlier":        {all(shows("base", 60)), fenceWon},
		"a replica that is behind":            {all(shows("older", 49)), fenceUnchanged},
		"the base, not shown before":          {all(shows("base", 70), unseen(60)), fenceUnchanged},
		"another, not shown before":           {all(shows("theirs", 70), unseen(60)), fenceWon},
		"behind, not shown before":            {all(shows("theirs", 60), unseen(60)), fenceUnchanged},
		"the base too late to be ours":        {all(shows("base", 107), unseen(60), func(q *question) { q.baseBefore = 80 }), fenceLost},
		"too late, but earlier than ours":     {all(shows("base", 90), unseen(60), func(q *question) { q.baseBefore = 80 }), fenceWon},
		"one of our own, late":                {all(shows("mine", 107), own(put("mine"))), fenceUnchanged},
		"ours landed already":                 {all(shows("new", 107), own(put("new"))), fenceHeld},
		"ours, and nobody knows when":         {all(shows("new", 105), own(put("new"))), fenceUnchanged},
		"the same value of another host":      {all(shows("new", 107)), fenceHeld},
		"the same value, earlier":             {all(shows("new", 103)), fenceSame},
		"the same value, undecided":           {all(shows("new", 105), may), fenceSame},
		"ours, out of turn":                   {all(shows("new", 107), own(put("new")), resend), fenceUnchanged},
		"blind, later":                        {all(shows("theirs", 107), blind), fenceLost},
		"blind, earlier":                      {all(shows("theirs", 103), blind), fenceWon},
		"blind, from before our time":         {all(shows("theirs", 19), blind), fenceOld},
		"known absent, later":                 {all(shows("theirs", 107), absent), fenceLost},
		"known absent, old":                   {all(shows("theirs", 19), absent), fenceWon},
		"known, and older than our time":      {all(shows("theirs", 19), unseen(0)), fenceWon},
		"anything may be ours, later":         {all(shows("theirs", 107), unknown), fenceWon},
		"anything may be ours, undecided":     {all(shows("theirs", 105), unknown, may), fenceWon},
	} {
		t.Run(name, func(t *testing.T) {
			q := &question{
				write:      journal.Write{Op: journal.Put, Value: "new", WrittenAt: 100},
				base:       journal.Base{Known: true, Present: true, Content: put("base"), Origin: journal.Origin{Seq: 3, At: 50}},
				baseBefore: math.Inf(1), offset: Span{4, 6}, oldBefore: 20,
			}
			for _, change := range row.changes {
				change(q)
			}
			if got := judge(q); got != row.want {
				t.Errorf("it is %s, want %s", got, row.want)
			}
		})
	}
}
