package upstream

import (
	"math"
	"testing"

	"github.com/botwired/botwired/journal"
)

type judgement struct {
	changes []func(*question)
	want    outcome
}

// The changes of the first question.
var (
	putOf  = func(value string) journal.Content { return journal.ContentOf(journal.Put, value) }
	qShows = func(value string, at float64) func(*question) {
		return func(q *question) { q.found = &journal.Observation{Value: value, UpdatedAt: at} }
	}
	qNothing = func(q *question) { q.found = nil }
	qDeletes = func(q *question) { q.write = journal.Write{Op: journal.Delete, WrittenAt: 100} }
	qUnseen  = func(after float64) func(*question) { // upstream has not shown the base with its time
		return func(q *question) { q.base.Origin = journal.Origin{Seq: 3, After: after} }
	}
	qTheirs = func(at float64) func(*question) {
		return func(q *question) { q.base.Origin = journal.Origin{At: at} }
	}
	qSeen = func(at float64) func(*question) {
		return func(q *question) { q.base.Origin = journal.Origin{Seq: 3, At: at} }
	}
	qWriteLosesTies = func(q *question) { q.write.LosesTies = true }
	qBlind          = func(q *question) { q.base = journal.Base{} }
	qAbsent         = func(q *question) { q.base = journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")} }
	qOwn            = func(c journal.Content) func(*question) { return func(q *question) { q.own = append(q.own, c) } }
	qMay            = func(q *question) { q.mayAsk = true }
	qUnknown        = func(q *question) { q.unknown = true }
	qSame           = func(q *question) { q.write.Value, q.offset = "base", anything }
	qLosesTies      = func(q *question) { q.losesTies = true }
	qIgnorant       = func(q *question) { q.offset = anything }
	qAll            = func(changes ...func(*question)) []func(*question) { return changes }
)

// The rows differ from the first question by a change or two: a put of "new" at 100 s, on the base
// "base" of 50 s, to which upstream's clock is between 4 and 6 s ahead.
var judgements = map[string]judgement{
	"nobody has changed it":                   {qAll(qShows("base", 50)), fenceUnchanged},
	"a delete, nobody has changed it":         {qAll(qDeletes, qShows("base", 50)), fenceUnchanged},
	"absent, a put":                           {qAll(qNothing), fenceAbsent},
	"absent, a delete":                        {qAll(qNothing, qDeletes), fenceHeld},
	"absent as known, a put":                  {qAll(qNothing, qAbsent), fenceAbsent},
	"another host's, later":                   {qAll(qShows("theirs", 106.1)), fenceLost},
	"another host's, earlier":                 {qAll(qShows("theirs", 104)), fenceWon},
	"within the uncertainty":                  {qAll(qShows("theirs", 105)), fenceWon},
	"at its end":                              {qAll(qShows("theirs", 106)), fenceWon},
	"within it, and another answer helps":     {qAll(qShows("theirs", 105), qMay), fenceUndecided},
	"beyond it, though":                       {qAll(qShows("theirs", 106.1), qMay), fenceLost},
	"before it, though":                       {qAll(qShows("theirs", 103.9), qMay), fenceWon},
	"nothing known of the clocks":             {qAll(qShows("theirs", 1e9), qIgnorant), fenceWon},
	"not certain, and ours loses ties":        {qAll(qShows("theirs", 105), qLosesTies), fenceLost},
	"not certain yet, and ours loses ties":    {qAll(qShows("theirs", 105), qLosesTies, qMay), fenceUndecided},
	"earlier, and ours loses ties":            {qAll(qShows("theirs", 103), qLosesTies), fenceWon},
	"nothing known, and ours loses ties":      {qAll(qShows("theirs", 1e9), qIgnorant, qLosesTies), fenceLost},
	"our base, and ours loses ties":           {qAll(qShows("base", 50), qLosesTies), fenceUnchanged},
	"blind and old, and ours loses ties":      {qAll(qShows("theirs", 19), qBlind, qLosesTies), fenceOld},
	"anything may be ours, and it loses ties": {qAll(qShows("theirs", 105), qUnknown, qLosesTies), fenceWon},
	"a delete beaten by a put":                {qAll(qDeletes, qShows("theirs", 107)), fenceLost},
	"a delete that beats a put":               {qAll(qDeletes, qShows("theirs", 103)), fenceWon},
	"the old value again, later":              {qAll(qShows("base", 107)), fenceLost},
	"the old value again, earlier":            {qAll(qShows("base", 60)), fenceWon},
	"a replica that is behind":                {qAll(qShows("older", 49)), fenceUnchanged},
	"the base, not shown before":              {qAll(qShows("base", 70), qUnseen(60)), fenceUnchanged},
	"another, not shown before":               {qAll(qShows("theirs", 70), qUnseen(60)), fenceWon},
	"behind, not shown before":                {qAll(qShows("theirs", 60), qUnseen(60)), fenceUnchanged},
	"the base too late to be ours":            {qAll(qShows("base", 107), qUnseen(60), func(q *question) { q.baseBefore = 80 }), fenceLost},
	"too late, but earlier than ours":         {qAll(qShows("base", 90), qUnseen(60), func(q *question) { q.baseBefore = 80 }), fenceWon},
	"theirs, known since":                     {qAll(qShows("base", 107), qTheirs(107)), fenceLost},
	"theirs, known before":                    {qAll(qShows("base", 90), qTheirs(90)), fenceUnchanged},
	"theirs, not certainly later":             {qAll(qShows("base", 105), qTheirs(105), qMay), fenceUnchanged},
	"ours, the clock was set back":            {qAll(qShows("base", 107), qSeen(107)), fenceUnchanged},
	"ours, and a copy of an older state":      {qAll(qShows("base", 107), qSeen(107), qWriteLosesTies), fenceLost},
	"ours from before, and a copy":            {qAll(qShows("base", 90), qSeen(90), qWriteLosesTies), fenceUnchanged},
	"our late one, and a copy":                {qAll(qShows("mine", 107), qOwn(putOf("mine")), qWriteLosesTies), fenceUnchanged},
	"one of our qOwn, late":                   {qAll(qShows("mine", 107), qOwn(putOf("mine"))), fenceUnchanged},
	"ours landed already":                     {qAll(qShows("new", 107), qOwn(putOf("new"))), fenceHeld},
	"ours, and nobody knows when":             {qAll(qShows("new", 105), qOwn(putOf("new"))), fenceHeld},
	"ours, from before the write":             {qAll(qShows("new", 103), qOwn(putOf("new"))), fenceUnchanged},
	"the base, which is ours as well":         {qAll(qShows("base", 50), qOwn(putOf("base")), qSame), fenceUnchanged},
	"the same value of another host":          {qAll(qShows("new", 107)), fenceHeld},
	"the same value, earlier":                 {qAll(qShows("new", 103)), fenceSame},
	"the same value, undecided":               {qAll(qShows("new", 105), qMay), fenceSame},
	"blind, later":                            {qAll(qShows("theirs", 107), qBlind), fenceLost},
	"blind, earlier":                          {qAll(qShows("theirs", 103), qBlind), fenceWon},
	"blind, from before our time":             {qAll(qShows("theirs", 19), qBlind), fenceOld},
	"known qAbsent, later":                    {qAll(qShows("theirs", 107), qAbsent), fenceLost},
	"known qAbsent, old":                      {qAll(qShows("theirs", 19), qAbsent), fenceWon},
	"known, and older than our time":          {qAll(qShows("theirs", 19), qUnseen(0)), fenceWon},
	"anything may be ours, later":             {qAll(qShows("theirs", 107), qUnknown), fenceWon},
	"anything may be ours, undecided":         {qAll(qShows("theirs", 105), qUnknown, qMay), fenceWon},
}

func TestFenceJudges(t *testing.T) {
	for name, row := range judgements {
		t.Run(name, func(t *testing.T) {
			q := &question{
				write:      journal.Write{Op: journal.Put, Value: "new", WrittenAt: 100},
				base:       journal.Base{Known: true, Present: true, Content: putOf("base"), Origin: journal.Origin{Seq: 3, At: 50}},
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
