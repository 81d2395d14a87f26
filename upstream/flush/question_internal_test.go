package flush

import (
	"math"
	"testing"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// judgement is a question, as changes to the first one of its table, and how it is decided.
type judgement struct {
	changes []func(*question)
	want    outcome
}

// The changes of the first question.
var (
	putOf  = func(value string) journal.Content { return journal.ContentOf(journal.Put, value) }
	qShows = func(value string, at float64) func(*question) {
		return func(q *question) { q.now = upstream.Version{Revision: 7, Value: value, WrittenAt: at} }
	}
	qNothing = func(q *question) { q.now = upstream.Version{} }
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
	qIsACopy = func(q *question) { q.write.LosesTies, q.losesTies = true, true }
	qBlind   = func(q *question) { q.base = journal.Base{} }
	qAbsent  = func(q *question) { q.base = journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")} }
	qOwn     = func(c journal.Content) func(*question) { return func(q *question) { q.own = append(q.own, c) } }
	qMay     = func(q *question) { q.byTime.mayAsk = true }
	qUnknown = func(q *question) { q.byTime.unknown = true }
	qSame    = func(q *question) {
		q.write.Value, q.byTime.offset = "base", upstream.Span{Least: math.Inf(-1), Most: math.Inf(1)}
	}
	qLosesTies = func(q *question) { q.losesTies = true }
	qIgnorant  = func(q *question) { q.byTime.offset = upstream.Span{Least: math.Inf(-1), Most: math.Inf(1)} }
	qAll       = func(changes ...func(*question)) []func(*question) { return changes }
)

// The rows differ from the first question by a change or two: a put of "new" at 100 s, on the base
// "base" of 50 s, to which upstream's clock is between 4 and 6 s ahead.
var judgements = map[string]judgement{
	"nobody has changed it":                {qAll(qShows("base", 50)), fenceUnchanged},
	"a delete, nobody has changed it":      {qAll(qDeletes, qShows("base", 50)), fenceUnchanged},
	"absent, a put":                        {qAll(qNothing), fenceAbsent},
	"absent, a delete":                     {qAll(qNothing, qDeletes), fenceHeld},
	"absent as known, a put":               {qAll(qNothing, qAbsent), fenceAbsent},
	"another host's, later":                {qAll(qShows("theirs", 106.1)), fenceLost},
	"another host's, earlier":              {qAll(qShows("theirs", 104)), fenceWon},
	"within the uncertainty":               {qAll(qShows("theirs", 105)), fenceWon},
	"at its end":                           {qAll(qShows("theirs", 106)), fenceWon},
	"within it, and another answer helps":  {qAll(qShows("theirs", 105), qMay), fenceUndecided},
	"beyond it, though":                    {qAll(qShows("theirs", 106.1), qMay), fenceLost},
	"before it, though":                    {qAll(qShows("theirs", 103.9), qMay), fenceWon},
	"nothing known of the clocks":          {qAll(qShows("theirs", 1e9), qIgnorant), fenceWon},
	"not certain, and ours loses ties":     {qAll(qShows("theirs", 105), qLosesTies), fenceLost},
	"not certain yet, and ours loses ties": {qAll(qShows("theirs", 105), qLosesTies, qMay), fenceUndecided},
	"earlier, and ours loses ties":         {qAll(qShows("theirs", 103), qLosesTies), fenceWon},
	"nothing known, and ours loses ties":   {qAll(qShows("theirs", 1e9), qIgnorant, qLosesTies), fenceLost},
	"our base, and ours loses ties":        {qAll(qShows("base", 50), qLosesTies), fenceUnchanged},
	"blind and old, and ours loses ties":   {qAll(qShows("theirs", 19), qBlind, qLosesTies), fenceOld},
	"upstream.Span{Least: math.Inf(-1), Most: math.Inf(1)} may be ours, and it loses ties": {qAll(qShows("theirs", 105), qUnknown, qLosesTies), fenceWon},
	"a delete beaten by a put":           {qAll(qDeletes, qShows("theirs", 107)), fenceLost},
	"a delete that beats a put":          {qAll(qDeletes, qShows("theirs", 103)), fenceWon},
	"the old value again, later":         {qAll(qShows("base", 107)), fenceLost},
	"the old value again, earlier":       {qAll(qShows("base", 60)), fenceWon},
	"a replica that is behind":           {qAll(qShows("older", 49)), fenceUnchanged},
	"the base, not shown before":         {qAll(qShows("base", 70), qUnseen(60)), fenceUnchanged},
	"another, not shown before":          {qAll(qShows("theirs", 70), qUnseen(60)), fenceWon},
	"behind, not shown before":           {qAll(qShows("theirs", 60), qUnseen(60)), fenceUnchanged},
	"the base too late to be ours":       {qAll(qShows("base", 107), qUnseen(60), func(q *question) { q.byTime.baseBefore = 80 }), fenceLost},
	"too late, but earlier than ours":    {qAll(qShows("base", 90), qUnseen(60), func(q *question) { q.byTime.baseBefore = 80 }), fenceWon},
	"theirs, known since":                {qAll(qShows("base", 107), qTheirs(107)), fenceLost},
	"theirs, known before":               {qAll(qShows("base", 90), qTheirs(90)), fenceUnchanged},
	"theirs, not certainly later":        {qAll(qShows("base", 105), qTheirs(105), qMay), fenceUnchanged},
	"ours, the clock was set back":       {qAll(qShows("base", 107), qSeen(107)), fenceUnchanged},
	"ours, and a copy of an older state": {qAll(qShows("base", 107), qSeen(107), qIsACopy), fenceLost},
	"ours from before, and a copy":       {qAll(qShows("base", 90), qSeen(90), qIsACopy), fenceUnchanged},
	"our late one, and a copy":           {qAll(qShows("mine", 107), qOwn(putOf("mine")), qIsACopy), fenceUnchanged},
	"one of our qOwn, late":              {qAll(qShows("mine", 107), qOwn(putOf("mine"))), fenceUnchanged},
	"ours landed already":                {qAll(qShows("new", 107), qOwn(putOf("new"))), fenceHeld},
	"ours, and nobody knows when":        {qAll(qShows("new", 105), qOwn(putOf("new"))), fenceHeld},
	"ours, from before the write":        {qAll(qShows("new", 103), qOwn(putOf("new"))), fenceUnchanged},
	"the base, which is ours as well":    {qAll(qShows("base", 50), qOwn(putOf("base")), qSame), fenceUnchanged},
	"the same value of another host":     {qAll(qShows("new", 107)), fenceHeld},
	"the same value, earlier":            {qAll(qShows("new", 103)), fenceSame},
	"the same value, undecided":          {qAll(qShows("new", 105), qMay), fenceSame},
	"blind, later":                       {qAll(qShows("theirs", 107), qBlind), fenceLost},
	"blind, earlier":                     {qAll(qShows("theirs", 103), qBlind), fenceWon},
	"blind, from before our time":        {qAll(qShows("theirs", 19), qBlind), fenceOld},
	"known qAbsent, later":               {qAll(qShows("theirs", 107), qAbsent), fenceLost},
	"known qAbsent, old":                 {qAll(qShows("theirs", 19), qAbsent), fenceWon},
	"known, and older than our time":     {qAll(qShows("theirs", 19), qUnseen(0)), fenceWon},
	"upstream.Span{Least: math.Inf(-1), Most: math.Inf(1)} may be ours, later":     {qAll(qShows("theirs", 107), qUnknown), fenceWon},
	"upstream.Span{Least: math.Inf(-1), Most: math.Inf(1)} may be ours, undecided": {qAll(qShows("theirs", 105), qUnknown, qMay), fenceWon},
}

func TestFenceJudges(t *testing.T) {
	for name, row := range judgements {
		t.Run(name, func(t *testing.T) {
			q := &question{
				write:  journal.Write{Op: journal.Put, Value: "new", WrittenAt: 100},
				base:   journal.Base{Known: true, Present: true, Content: putOf("base"), Origin: journal.Origin{Seq: 3, At: 50}},
				valued: true, fenced: true, oldBefore: 20, byTime: byTime{baseBefore: math.Inf(1), offset: upstream.Span{Least: 4, Most: 6}},
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

func xAll(changes ...func(*question)) []func(*question) { return changes }

// xTheirs is a version of another host's.
func xTheirs(value string, at float64) func(*question) {
	return xVersion(value, at, upstream.Writer{Host: "z", Seq: 5})
}

// xOurs is a version of this host's.
func xOurs(value string, at float64, seq uint64) func(*question) {
	return xVersion(value, at, upstream.Writer{Host: "a", Seq: seq})
}

func xVersion(value string, at float64, by upstream.Writer) func(*question) {
	return func(q *question) { q.now = upstream.Version{Revision: 7, Value: value, WrittenAt: at, Writer: by} }
}

func xDeleted(q *question)   { q.now.Deleted, q.now.Value = true, "" }
func xDeletes(q *question)   { q.write.Op, q.write.Value = journal.Delete, "" }
func xNoValue(q *question)   { q.valued, q.now.Value = false, "" }
func xUnfenced(q *question)  { q.fenced = false }
func xIsACopy(q *question)   { q.write.LosesTies, q.losesTies = true, true }
func xFenced(q *question)    { q.write.Fenced = true }
func xLosesTies(q *question) { q.losesTies = true }
func xUnknown(q *question)   { q.base = journal.Base{} }
func xAbsent(q *question) {
	q.base = journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")}
}

func xOwn(value string) func(*question) {
	return func(q *question) { q.own = append(q.own, journal.ContentOf(journal.Put, value)) }
}

// The write is "new", number 9 of the host a, made at 90 and journaled at 100. Its base is another
// host's, of 50. A version from before 20 is old.
var exactJudgements = map[string]judgement{
	"nothing there":                           {xAll(), fenceAbsent},
	"nothing there, a delete":                 {xAll(xDeletes), fenceAbsent}, // an older put is not to come back
	"nothing there, unfenced":                 {xAll(xUnfenced), fenceAbsent},
	"the base":                                {xAll(xTheirs("base", 50), xNoValue), fenceUnchanged},
	"the base, a delete":                      {xAll(xDeletes, xTheirs("base", 50), xNoValue), fenceUnchanged},
	"the base, of a later time":               {xAll(xTheirs("base", 150), xNoValue, func(q *question) { q.base.UpdatedAt = 150 }), fenceUnchanged},
	"the base, and a copy of an older one":    {xAll(xTheirs("base", 150), xIsACopy, func(q *question) { q.base.UpdatedAt = 150 }), fenceLost},
	"the base as upstream has shown it":       {xAll(xTheirs("base", 50), xNoValue, func(q *question) { q.base.UpdatedAt, q.base.Origin.At = 60, 50 }), fenceUnchanged},
	"the base, our own":                       {xAll(xOurs("base", 49, 4), xNoValue, func(q *question) { q.base.Origin = journal.Origin{Seq: 4} }), fenceUnchanged},
	"the base's number, a copied directory's": {xAll(xOurs("clone", 51, 4), func(q *question) { q.base.Origin = journal.Origin{Seq: 4} }), fenceWon},
	"the base's number, a copy's, later":      {xAll(xOurs("clone", 101, 4), func(q *question) { q.base.Origin = journal.Origin{Seq: 4} }), fenceLost},
	"the base's number, another host's":       {xAll(xVersion("x", 51, upstream.Writer{Host: "z", Seq: 4}), func(q *question) { q.base.Origin = journal.Origin{Seq: 4} }), fenceWon},
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
	"at the same time, by this host":          {xAll(xVersion("theirs", 100, upstream.Writer{Host: "A", Seq: 50})), fenceWon},
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
	"made before, a copy of an older one":     {xAll(xTheirs("theirs", 95), xIsACopy), fenceLost},
	"made before, made pending anew":          {xAll(xTheirs("theirs", 95), xFenced), fenceLost},
	"made before this host was in doubt":      {xAll(xTheirs("theirs", 95), xLosesTies), fenceLost},
	"made later, and it was in doubt":         {xAll(xTheirs("theirs", 89), xLosesTies), fenceWon},
}

func TestExactFenceJudges(t *testing.T) {
	for name, row := range exactJudgements {
		t.Run(name, func(t *testing.T) {
			q := &question{
				write:   journal.Write{Seq: 9, Op: journal.Put, Value: "new", WrittenAt: 90, UpdatedAt: 100},
				exactly: &exactly{host: "a"}, valued: true, fenced: true, oldBefore: 20,
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

// The rows differ from a write through of "new" by the host a, over another host's version of 99 that
// upstream has shown.
var throughJudgements = map[string]judgement{
	"nothing there":                        {xAll(tNothing), fenceAbsent},
	"nothing to delete":                    {xAll(tNothing, xDeletes, tLacked), fenceHeld},
	"nothing to delete, as far as known":   {xAll(tNothing, xDeletes, tLacked, xNoValue), fenceUndecided},
	"a delete, and a put was pending":      {xAll(tNothing, xDeletes), fenceAbsent},
	"deleted, as known":                    {xAll(xDeleted, xAbsent), fenceAbsent},
	"deleted, and nothing known":           {xAll(xDeleted, xUnknown, tOnBase), fenceAbsent},
	"deleted since":                        {xAll(xDeleted), fenceWon},
	"deleted since, with conditions":       {xAll(xDeleted, tOnBase), fenceLost},
	"the base":                             {xAll(xTheirs("base", 50), tOnBase), fenceUnchanged},
	"another host's":                       {xAll(), fenceWon},
	"another host's, later":                {xAll(xTheirs("theirs", 1e9)), fenceWon},
	"another host's, no value":             {xAll(xNoValue), fenceUndecided},
	"another host's, with conditions":      {xAll(tOnBase), fenceLost},
	"another's, with conditions, no value": {xAll(tOnBase, xNoValue), fenceUndecided},
	"another host's, old":                  {xAll(xUnknown, xTheirs("theirs", 19), xNoValue), fenceOld},
	"another host's, unfenced":             {xAll(xUnfenced, xNoValue), fenceUnchanged},
	"the same value":                       {xAll(xTheirs("new", 99)), fenceSame},
	"an older write of ours":               {xAll(xOurs("mine", 60, 6), xOwn("mine"), tOnBase), fenceUnchanged},
	"one that went through":                {xAll(xOurs("new", 60, 0), xOwn("mine")), fenceSame},
	"this write, the answer was lost":      {xAll(xOurs("new", 100, 0), tProposed), fenceOwn},
	"this delete":                          {xAll(xOurs("", 100, 0), xDeleted, xDeletes, tLacked, tProposed), fenceOwn},
	"another time":                         {xAll(xOurs("new", 101, 0), tProposed, tOnBase), fenceLost},
	"another value":                        {xAll(xOurs("clone", 100, 0), tProposed, tOnBase), fenceLost},
}

var (
	tNothing  = func(q *question) { q.now = upstream.Version{} }
	tLacked   = func(q *question) { q.conditions.lacked = true }
	tOnBase   = func(q *question) { q.conditions.onBase = true }
	tProposed = func(q *question) { q.exactly.proposedAt = 100e6 }
)

// A write through is made now, and is later than what there is. With conditions it takes the place of
// their base only.
func TestWritesThroughAreJudged(t *testing.T) {
	for name, row := range throughJudgements {
		t.Run(name, func(t *testing.T) {
			q := &question{
				write:   journal.Write{Op: journal.Put, Value: "new", WrittenAt: 90, UpdatedAt: 90},
				exactly: &exactly{host: "a"}, valued: true, fenced: true, oldBefore: 20, conditions: &conditions{},
				base: journal.Base{Known: true, Present: true, Content: journal.ContentOf(journal.Put, "base"), UpdatedAt: 50},
			}
			xTheirs("theirs", 99)(q)
			for _, change := range row.changes {
				change(q)
			}
			if got := q.judge(); got != row.want {
				t.Errorf("it is %s, want %s", got, row.want)
			}
		})
	}
}

// An upstream that does not say what it holds says so to the write, too.
func TestARefusedQuestionIsNoReasonToSettle(t *testing.T) {
	for _, op := range []journal.Op{journal.Put, journal.Delete} {
		q := &question{write: journal.Write{Op: op}, refused: true, fenced: true}
		if got := q.judge(); got != fenceFailed {
			t.Errorf("%s: it is %s", op, got)
		}
	}
}
