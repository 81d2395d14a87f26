package upstream

import (
	"testing"

	"github.com/botwired/botwired/journal"
)

type exactRow struct {
	changes []func(*exactQuestion)
	want    outcome
}

func xAll(changes ...func(*exactQuestion)) []func(*exactQuestion) { return changes }

// xTheirs is a version of another host's.
func xTheirs(value string, at float64) func(*exactQuestion) {
	return xVersion(value, at, Writer{"z", 5})
}

// xOurs is a version of this host's.
func xOurs(value string, at float64, seq uint64) func(*exactQuestion) {
	return xVersion(value, at, Writer{"a", seq})
}

func xVersion(value string, at float64, by Writer) func(*exactQuestion) {
	return func(q *exactQuestion) { q.now = Version{Revision: 7, Value: value, WrittenAt: at, Writer: by} }
}

func xDeleted(q *exactQuestion)        { q.now.Deleted, q.now.Value = true, "" }
func xDeletes(q *exactQuestion)        { q.write.Op, q.write.Value = journal.Delete, "" }
func xNoValue(q *exactQuestion)        { q.valued, q.now.Value = false, "" }
func xUnfenced(q *exactQuestion)       { q.fenced = false }
func xWriteLosesTies(q *exactQuestion) { q.write.LosesTies = true }
func xFenced(q *exactQuestion)         { q.write.Fenced = true }
func xLosesTies(q *exactQuestion)      { q.losesTies = true }
func xUnknown(q *exactQuestion)        { q.base = journal.Base{} }
func xAbsent(q *exactQuestion) {
	q.base = journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")}
}

func xOwn(value string) func(*exactQuestion) {
	return func(q *exactQuestion) { q.own = append(q.own, journal.ContentOf(journal.Put, value)) }
}

// The write is "new", number 9 of the host a, made at 90 and journaled at 100. Its base is another
// host's, of 50. A version from before 20 is old.
var exactJudgements = map[string]exactRow{
	"nothing there":                           {xAll(), fenceAbsent},
	"nothing there, a delete":                 {xAll(xDeletes), fenceAbsent}, // an older put is not to come back
	"nothing there, unfenced":                 {xAll(xUnfenced), fenceAbsent},
	"the base":                                {xAll(xTheirs("base", 50), xNoValue), fenceUnchanged},
	"the base, a delete":                      {xAll(xDeletes, xTheirs("base", 50), xNoValue), fenceUnchanged},
	"the base, of a later time":               {xAll(xTheirs("base", 150), xNoValue, func(q *exactQuestion) { q.base.UpdatedAt = 150 }), fenceUnchanged},
	"the base, and a copy of an older one":    {xAll(xTheirs("base", 150), xWriteLosesTies, func(q *exactQuestion) { q.base.UpdatedAt = 150 }), fenceLost},
	"the base as upstream has shown it":       {xAll(xTheirs("base", 50), xNoValue, func(q *exactQuestion) { q.base.UpdatedAt, q.base.Origin.At = 60, 50 }), fenceUnchanged},
	"the base, our own":                       {xAll(xOurs("base", 49, 4), xNoValue, func(q *exactQuestion) { q.base.Origin = journal.Origin{Seq: 4} }), fenceUnchanged},
	"the base's number, a copied directory's": {xAll(xOurs("clone", 51, 4), func(q *exactQuestion) { q.base.Origin = journal.Origin{Seq: 4} }), fenceWon},
	"the base's number, a copy's, later":      {xAll(xOurs("clone", 101, 4), func(q *exactQuestion) { q.base.Origin = journal.Origin{Seq: 4} }), fenceLost},
	"the base's number, another host's":       {xAll(xVersion("x", 51, Writer{"z", 4}), func(q *exactQuestion) { q.base.Origin = journal.Origin{Seq: 4} }), fenceWon},
	"within a rounding of the base":           {xAll(xTheirs("base", 50.0000001), xNoValue), fenceUnchanged},
	"the base was deleted":                    {xAll(xTheirs("", 50), xDeleted), fenceWon},
	"this write, and nobody knows what":       {xAll(xOurs("new", 100, 9), xNoValue), fenceUndecided},
	"this write":                              {xAll(xOurs("new", 100, 9)), fenceOwn},
	"this write, made later":                  {xAll(xOurs("new", 130, 9)), fenceOwn},
	"this write, unfenced":                    {xAll(xOurs("new", 100, 9), xUnfenced), fenceOwn},
	"this delete":                             {xAll(xDeletes, xOurs("", 100, 9), xDeleted), fenceOwn},
	"its number, another value":               {xAll(xOurs("clone", 100, 9)), fenceLost},
	"its number, another value, earlier":      {xAll(xOurs("clone", 99, 9)), fenceWon},
	"its number, another value, unfenced":     {xAll(xOurs("clone", 100, 9), xUnfenced), fenceUnchanged},
	"its number and value, earlier":           {xAll(xOurs("new", 99, 9)), fenceSame},
	"its number, a delete":                    {xAll(xOurs("", 100, 9), xDeleted), fenceLost},
	"an older write of ours":                  {xAll(xOurs("mine", 60, 6), xOwn("mine")), fenceUnchanged},
	"an older write, without its value":       {xAll(xOurs("mine", 60, 6), xOwn("mine"), xNoValue), fenceUndecided},
	"an older write, and no copy":             {xAll(xOurs("mine", 60, 6), xUnknown, xNoValue), fenceUnchanged},
	"an older write, later by its time":       {xAll(xOurs("mine", 150, 6), xOwn("mine")), fenceUnchanged},
	"an older write of a copied directory":    {xAll(xOurs("clone", 60, 6), xOwn("mine")), fenceWon},
	"a newer write of a copied directory":     {xAll(xOurs("clone", 150, 12)), fenceLost},
	"one that went through":                   {xAll(xOurs("mine", 60, 0), xOwn("mine")), fenceUnchanged},
	"another host's, later":                   {xAll(xTheirs("theirs", 101)), fenceLost},
	"another host's, later, no value":         {xAll(xTheirs("theirs", 101), xNoValue), fenceUndecided},
	"another host's, earlier":                 {xAll(xTheirs("theirs", 99)), fenceWon},
	"another host's, earlier, no value":       {xAll(xTheirs("theirs", 99), xNoValue), fenceUndecided},
	"at the same time, by its host":           {xAll(xTheirs("theirs", 100)), fenceLost},
	"at the same time, by this host":          {xAll(xVersion("theirs", 100, Writer{"A", 50})), fenceWon},
	"another host's, later, unfenced":         {xAll(xTheirs("theirs", 101), xUnfenced, xNoValue), fenceUnchanged},
	"the same value, later":                   {xAll(xTheirs("new", 101)), fenceHeld},
	"the same value, earlier":                 {xAll(xTheirs("new", 99)), fenceSame},
	"another host's delete, later":            {xAll(xTheirs("", 101), xDeleted, xNoValue), fenceLost},
	"another host's delete, earlier":          {xAll(xTheirs("", 99), xDeleted, xNoValue), fenceWon},
	"another's delete, and ours, later":       {xAll(xDeletes, xTheirs("", 101), xDeleted), fenceHeld},
	"another's delete, and ours, earlier":     {xAll(xDeletes, xTheirs("", 99), xDeleted), fenceSame},
	"a delete of what is known as absent":     {xAll(xAbsent, xTheirs("", 99), xDeleted, xNoValue), fenceUnchanged},
	"absent as known, deleted later":          {xAll(xAbsent, xTheirs("", 101), xDeleted), fenceLost},
	"absent as known, there all the same":     {xAll(xAbsent, xTheirs("theirs", 99)), fenceWon},
	"blind, old":                              {xAll(xUnknown, xTheirs("theirs", 19), xNoValue), fenceOld},
	"blind, earlier":                          {xAll(xUnknown, xTheirs("theirs", 99)), fenceWon},
	"blind, later":                            {xAll(xUnknown, xTheirs("theirs", 101)), fenceLost},
	"known, old":                              {xAll(xTheirs("theirs", 19)), fenceWon},
	"made before, a copy of an older one":     {xAll(xTheirs("theirs", 95), xWriteLosesTies), fenceLost},
	"made before, made pending anew":          {xAll(xTheirs("theirs", 95), xFenced), fenceLost},
	"made before this host was in doubt":      {xAll(xTheirs("theirs", 95), xLosesTies), fenceLost},
	"made later, and it was in doubt":         {xAll(xTheirs("theirs", 89), xLosesTies), fenceWon},
}

func TestExactFenceJudges(t *testing.T) {
	for name, row := range exactJudgements {
		t.Run(name, func(t *testing.T) {
			q := &exactQuestion{
				write: journal.Write{Seq: 9, Op: journal.Put, Value: "new", WrittenAt: 90, UpdatedAt: 100},
				host:  "a", valued: true, fenced: true, oldBefore: 20,
				base: journal.Base{Known: true, Present: true, Content: journal.ContentOf(journal.Put, "base"), UpdatedAt: 50},
			}
			for _, change := range row.changes {
				change(q)
			}
			if got := q.judge(); got != row.want {
				t.Errorf("it is %s, want %s", got, row.want)
			}
		})
	}
}

// Times come back from an engine in microseconds, whatever a float64 makes of them.
func TestMicros(t *testing.T) {
	for _, at := range []int64{0, 1, 1_700_000_000_000_001, 1_999_999_999_999_999} {
		if got := micros(float64(at) / 1e6); got != at {
			t.Errorf("%d became %d", at, got)
		}
	}
}
