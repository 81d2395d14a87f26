package fence

import (
	"math"
	"testing"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// judgement is a question, as changes to the first one of its table, and its outcome.
type judgement struct {
	changes []func(*Question)
	want    Outcome
}

// Changes to the first question.
var (
	putOf  = func(value string) journal.Content { return journal.ContentOf(journal.Put, value) }
	qShows = func(value string, at float64) func(*Question) {
		return func(q *Question) { q.Now = upstream.Version{Revision: 7, Value: value, WrittenAt: at} }
	}
	qNothing = func(q *Question) { q.Now = upstream.Version{} }
	qDeletes = func(q *Question) { q.Write = journal.Write{Op: journal.Delete, WrittenAt: 100} }
	qUnseen  = func(after float64) func(*Question) { // upstream has not shown the base with its time
		return func(q *Question) { q.Base.Origin = journal.Origin{Seq: 3, After: after} }
	}
	qTheirs = func(at float64) func(*Question) {
		return func(q *Question) { q.Base.Origin = journal.Origin{At: at} }
	}
	qSeen = func(at float64) func(*Question) {
		return func(q *Question) { q.Base.Origin = journal.Origin{Seq: 3, At: at} }
	}
	qIsACopy = func(q *Question) { q.Write.LosesTies = true }
	qListed  = func(q *Question) { q.Base = journal.Base{Listed: true} }
	qBlind   = func(q *Question) { q.Base = journal.Base{} }
	qAbsent  = func(q *Question) { q.Base = journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")} }
	qOwn     = func(c journal.Content) func(*Question) { return func(q *Question) { q.Own = append(q.Own, c) } }
	qEvicted = func(q *Question) { q.ByTime.Evicted = true }
	qUnknown = func(q *Question) { q.ByTime.Unknown = true }
	qSame    = func(q *Question) { q.Write.Value = "base" }
	qAll     = func(changes ...func(*Question)) []func(*Question) { return changes }
)

// The rows change the first question in one or two ways. It is a put of "new" on the base "base" from
// 50 s. By upstream's clock, it was written at 105 s.
var judgements = map[string]judgement{
	"nobody has changed it":                 {qAll(qShows("base", 50)), Unchanged},
	"a delete, nobody has changed it":       {qAll(qDeletes, qShows("base", 50)), Unchanged},
	"absent, a put":                         {qAll(qNothing), Absent},
	"absent, a delete":                      {qAll(qNothing, qDeletes), Held},
	"absent as known, a put":                {qAll(qNothing, qAbsent), Absent},
	"another host's, later":                 {qAll(qShows("theirs", 105.1)), Lost},
	"another host's, earlier":               {qAll(qShows("theirs", 104.9)), Won},
	"at the same time":                      {qAll(qShows("theirs", 105)), Won},
	"at the same time, and ours is a copy":  {qAll(qShows("theirs", 105), qIsACopy), Lost},
	"earlier, and ours is a copy":           {qAll(qShows("theirs", 104.9), qIsACopy), Won},
	"our base, and ours is a copy":          {qAll(qShows("base", 50), qIsACopy), Unchanged},
	"blind and old, and ours is a copy":     {qAll(qShows("theirs", 19), qBlind, qIsACopy), Old},
	"anything may be ours, and ours a copy": {qAll(qShows("theirs", 105), qUnknown, qIsACopy), Won},
	"a delete beaten by a put":              {qAll(qDeletes, qShows("theirs", 107)), Lost},
	"a delete that beats a put":             {qAll(qDeletes, qShows("theirs", 103)), Won},
	"the old value again, later":            {qAll(qShows("base", 107)), Lost},
	"the old value again, earlier":          {qAll(qShows("base", 60)), Won},
	"a replica that is behind":              {qAll(qShows("older", 49)), Unchanged},
	"the base, not shown before":            {qAll(qShows("base", 70), qUnseen(60)), Unchanged},
	"another, not shown before":             {qAll(qShows("theirs", 70), qUnseen(60)), Won},
	"behind, not shown before":              {qAll(qShows("theirs", 60), qUnseen(60)), Unchanged},
	"the base too late to be ours":          {qAll(qShows("base", 107), qUnseen(60), func(q *Question) { q.ByTime.BaseBefore = 80 }), Lost},
	"too late, but earlier than ours":       {qAll(qShows("base", 90), qUnseen(60), func(q *Question) { q.ByTime.BaseBefore = 80 }), Won},
	"theirs, known since":                   {qAll(qShows("base", 107), qTheirs(107)), Lost},
	"theirs, known before":                  {qAll(qShows("base", 90), qTheirs(90)), Unchanged},
	"theirs, at the same time":              {qAll(qShows("base", 105), qTheirs(105)), Unchanged},
	"ours, the clock was set back":          {qAll(qShows("base", 107), qSeen(107)), Unchanged},
	"ours, and a copy that replaced it":     {qAll(qShows("base", 107), qSeen(107), qIsACopy), Unchanged},
	"ours, and a copy that did not know it": {qAll(qShows("base", 107), qSeen(107), qIsACopy, qEvicted), Lost},
	"theirs, and a copy":                    {qAll(qShows("base", 107), qTheirs(107), qIsACopy), Lost},
	"ours from before, and a copy":          {qAll(qShows("base", 90), qSeen(90), qIsACopy), Unchanged},
	"our late one, and a copy":              {qAll(qShows("mine", 107), qOwn(putOf("mine")), qIsACopy), Unchanged},
	"one of our own, late":                  {qAll(qShows("mine", 107), qOwn(putOf("mine"))), Unchanged},
	"ours landed already":                   {qAll(qShows("new", 107), qOwn(putOf("new"))), Held},
	"ours, and nobody knows when":           {qAll(qShows("new", 105), qOwn(putOf("new"))), Held},
	"ours, from before the write":           {qAll(qShows("new", 103), qOwn(putOf("new"))), Unchanged},
	"the base, which is ours as well":       {qAll(qShows("base", 50), qOwn(putOf("base")), qSame), Unchanged},
	"the same value of another host":        {qAll(qShows("new", 107)), Held},
	"the same value, earlier":               {qAll(qShows("new", 103)), Same},
	"the same value, a copy of that state":  {qAll(qShows("new", 105), qIsACopy), Held},
	"blind, later":                          {qAll(qShows("theirs", 107), qBlind), Lost},
	"blind, earlier":                        {qAll(qShows("theirs", 103), qBlind), Won},
	"listed, from before our time":          {qAll(qShows("theirs", 19), qListed), Won},
	"blind, from before our time":           {qAll(qShows("theirs", 19), qBlind), Old},
	"known as absent, later":                {qAll(qShows("theirs", 107), qAbsent), Lost},
	"known as absent, old":                  {qAll(qShows("theirs", 19), qAbsent), Won},
	"known, and older than our time":        {qAll(qShows("theirs", 19), qUnseen(0)), Won},
	"anything may be ours, later":           {qAll(qShows("theirs", 107), qUnknown), Won},
}

func TestFenceJudges(t *testing.T) {
	for name, row := range judgements {
		t.Run(name, func(t *testing.T) {
			q := &Question{
				Write:  journal.Write{Op: journal.Put, Value: "new", WrittenAt: 100},
				Base:   journal.Base{Known: true, Present: true, Content: putOf("base"), Origin: journal.Origin{Seq: 3, At: 50}},
				Valued: true, OldBefore: 20, ByTime: ByTime{WrittenAt: 105, BaseBefore: math.Inf(1)},
			}
			for _, change := range row.changes {
				change(q)
			}
			if got := q.Judge(); got != row.want {
				t.Errorf("it is %s, want %s", got, row.want)
			}
		})
	}
}

func xAll(changes ...func(*Question)) []func(*Question) { return changes }

// xTheirs is a version written by another host.
func xTheirs(value string, at float64) func(*Question) {
	return xVersion(value, at, upstream.Writer{Host: "z", Seq: 5})
}

// xOurs is a version written by this host.
func xOurs(value string, at float64, seq uint64) func(*Question) {
	return xVersion(value, at, upstream.Writer{Host: "a", Seq: seq})
}

func xVersion(value string, at float64, by upstream.Writer) func(*Question) {
	return func(q *Question) { q.Now = upstream.Version{Revision: 7, Value: value, WrittenAt: at, Writer: by} }
}

func xDeleted(q *Question) { q.Now.Deleted, q.Now.Value = true, "" }
func xDeletes(q *Question) { q.Write.Op, q.Write.Value = journal.Delete, "" }
func xNoValue(q *Question) { q.Valued, q.Now.Value = false, "" }
func xNoTombs(q *Question) { q.Exactly.Tombstones = false }
func xIsACopy(q *Question) { q.Write.LosesTies = true }
func xFenced(q *Question)  { q.Write.Fenced = true }
func xUnknown(q *Question) { q.Base = journal.Base{} }
func xWrote(q *Question)   { q.Base, q.Exactly.Wrote = journal.Base{}, true }
func xAbsent(q *Question) {
	q.Base = journal.Base{Known: true, Content: journal.ContentOf(journal.Delete, "")}
}

func xOwn(value string) func(*Question) {
	return func(q *Question) { q.Own = append(q.Own, journal.ContentOf(journal.Put, value)) }
}

// The write is "new", number 9 of the host a, made at 90 and journaled at 100. Its base is another
// host's, from 50. A version from before 20 is old.
var exactJudgements = map[string]judgement{
	"nothing there":                           {xAll(), Absent},
	"nothing there, a delete":                 {xAll(xDeletes), Absent}, // an older put must not come back
	"nothing there, no tombstones":            {xAll(xNoTombs), Absent},
	"nothing there, a delete, no tombstones":  {xAll(xDeletes, xNoTombs), Held},
	"the base, no tombstones":                 {xAll(xNoTombs, xTheirs("base", 50)), Unchanged},
	"later, no tombstones":                    {xAll(xNoTombs, xTheirs("theirs", 101)), Lost},
	"the base":                                {xAll(xTheirs("base", 50), xNoValue), Unchanged},
	"the base, a delete":                      {xAll(xDeletes, xTheirs("base", 50), xNoValue), Unchanged},
	"the base, of a later time":               {xAll(xTheirs("base", 150), xNoValue, func(q *Question) { q.Base.UpdatedAt = 150 }), Unchanged},
	"the base, and a copy of an older one":    {xAll(xTheirs("base", 150), xIsACopy, func(q *Question) { q.Base.UpdatedAt = 150 }), Lost},
	"the base as upstream has shown it":       {xAll(xTheirs("base", 50), xNoValue, func(q *Question) { q.Base.UpdatedAt, q.Base.Origin.At = 60, 50 }), Unchanged},
	"the base, our own":                       {xAll(xOurs("base", 49, 4), xNoValue, func(q *Question) { q.Base.Origin = journal.Origin{Seq: 4} }), Unchanged},
	"the base's number, a copied directory's": {xAll(xOurs("clone", 51, 4), func(q *Question) { q.Base.Origin = journal.Origin{Seq: 4} }), Won},
	"the base's number, a copy's, later":      {xAll(xOurs("clone", 101, 4), func(q *Question) { q.Base.Origin = journal.Origin{Seq: 4} }), Lost},
	"the base's number, another host's":       {xAll(xVersion("x", 51, upstream.Writer{Host: "z", Seq: 4}), func(q *Question) { q.Base.Origin = journal.Origin{Seq: 4} }), Won},
	"the base's time, another host's":         {xAll(xTheirs("theirs", 50), func(q *Question) { q.Base.Origin = journal.Origin{Seq: 4} }), Won},
	"the same, and the base is a third one's": {xAll(xTheirs("theirs", 50)), Won},
	"within a rounding of the base":           {xAll(xTheirs("base", 50.0000001), xNoValue), Unchanged},
	"the base was deleted":                    {xAll(xTheirs("", 50), xDeleted), Won},
	"this write, and nobody knows what":       {xAll(xOurs("new", 100, 9), xNoValue), Undecided},
	"this write":                              {xAll(xOurs("new", 100, 9)), Own},
	"this write, made later":                  {xAll(xOurs("new", 130, 9)), Own},
	"this delete":                             {xAll(xDeletes, xOurs("", 100, 9), xDeleted), Own},
	"its number, another value":               {xAll(xOurs("clone", 100, 9)), Lost},
	"its number, another value, earlier":      {xAll(xOurs("clone", 99, 9)), Won},
	"its number and value, earlier":           {xAll(xOurs("new", 99, 9)), Same},
	"its number, a delete":                    {xAll(xOurs("", 100, 9), xDeleted), Lost},
	"an older write of ours":                  {xAll(xOurs("mine", 60, 6), xOwn("mine")), Unchanged},
	"an older write, without its value":       {xAll(xOurs("mine", 60, 6), xOwn("mine"), xNoValue), Undecided},
	"an older write, and no copy":             {xAll(xOurs("mine", 60, 6), xUnknown, xNoValue), Unchanged},
	"an older number, later, and no copy":     {xAll(xOurs("clone", 150, 6), xUnknown), Lost},
	"an older write of ours, the clock back":  {xAll(xOurs("mine", 150, 6), xWrote), Won},
	"and its value is not known":              {xAll(xOurs("mine", 150, 6), xWrote, xNoValue), Undecided},
	"and the write is an old one again":       {xAll(xOurs("mine", 150, 6), xWrote, xFenced), Lost},
	"an older write, later by its time":       {xAll(xOurs("mine", 150, 6), xOwn("mine")), Unchanged},
	"an older write of a copied directory":    {xAll(xOurs("clone", 60, 6), xOwn("mine")), Won},
	"a newer write of a copied directory":     {xAll(xOurs("clone", 150, 12)), Lost},
	"one that went through":                   {xAll(xOurs("mine", 60, 0), xOwn("mine")), Unchanged},
	"another host's, later":                   {xAll(xTheirs("theirs", 101)), Lost},
	"another host's, later, no value":         {xAll(xTheirs("theirs", 101), xNoValue), Undecided},
	"another host's, earlier":                 {xAll(xTheirs("theirs", 99)), Won},
	"another host's, earlier, no value":       {xAll(xTheirs("theirs", 99), xNoValue), Undecided},
	"at the same time, by its host":           {xAll(xTheirs("theirs", 100)), Lost},
	"at the same time, by this host":          {xAll(xVersion("theirs", 100, upstream.Writer{Host: "A", Seq: 50})), Won},
	"the same value, later":                   {xAll(xTheirs("new", 101)), Held},
	"the same value, later, one may land":     {xAll(xTheirs("new", 101), xOwn("mine")), Same},
	"the same value, later, the base":         {xAll(xTheirs("new", 101), func(q *Question) { q.Base.UpdatedAt, q.Base.Content = 101, putOf("new") }), Unchanged},
	"the same value, later, our own":          {xAll(xOurs("new", 101, 6), xOwn("new")), Unchanged},
	"the same value, earlier":                 {xAll(xTheirs("new", 99)), Same},
	"another host's delete, later":            {xAll(xTheirs("", 101), xDeleted, xNoValue), Lost},
	"another host's delete, earlier":          {xAll(xTheirs("", 99), xDeleted, xNoValue), Won},
	"another's delete, and ours, later":       {xAll(xDeletes, xTheirs("", 101), xDeleted), Held},
	"another's delete, and ours, earlier":     {xAll(xDeletes, xTheirs("", 99), xDeleted), Same},
	"a delete of what is known as absent":     {xAll(xAbsent, xTheirs("", 99), xDeleted, xNoValue), Unchanged},
	"absent as known, deleted later":          {xAll(xAbsent, xTheirs("", 101), xDeleted), Lost},
	"absent as known, there all the same":     {xAll(xAbsent, xTheirs("theirs", 99)), Won},
	"blind, old":                              {xAll(xUnknown, xTheirs("theirs", 19), xNoValue), Old},
	"blind, earlier":                          {xAll(xUnknown, xTheirs("theirs", 99)), Won},
	"blind, later":                            {xAll(xUnknown, xTheirs("theirs", 101)), Lost},
	"known, old":                              {xAll(xTheirs("theirs", 19)), Won},
	"made before, a copy of an older one":     {xAll(xTheirs("theirs", 95), xIsACopy), Lost},
	"made before, made pending anew":          {xAll(xTheirs("theirs", 95), xFenced), Lost},
}

func TestExactFenceJudges(t *testing.T) {
	for name, row := range exactJudgements {
		t.Run(name, func(t *testing.T) {
			q := &Question{
				Write:   journal.Write{Seq: 9, Op: journal.Put, Value: "new", WrittenAt: 90, UpdatedAt: 100},
				Exactly: &Exactly{Host: "a", Tombstones: true}, Valued: true, OldBefore: 20,
				Base: journal.Base{Known: true, Present: true, Content: journal.ContentOf(journal.Put, "base"), UpdatedAt: 50},
			}
			for _, change := range row.changes {
				change(q)
			}
			if got := q.Judge(); got != row.want {
				t.Errorf("it is %s, want %s", got, row.want)
			}
		})
	}
}

// Micros restores the microseconds that an engine stored, despite float64.
func TestMicros(t *testing.T) {
	for _, at := range []int64{0, 1, 1_700_000_000_000_001, 1_999_999_999_999_999} {
		if got := upstream.Micros(float64(at) / 1e6); got != at {
			t.Errorf("%d became %d", at, got)
		}
	}
}

// The rows change a write of "new" by the host a that may replace only its base, over another host's version from 99
// that upstream has shown.
var onBaseJudgements = map[string]judgement{
	"nothing there, and known to be":   {xAll(tNothing, xAbsent), Absent},
	"deleted, as known":                {xAll(xDeleted, xAbsent), Absent},
	"deleted since":                    {xAll(xDeleted), Lost},
	"the base":                         {xAll(xTheirs("base", 50)), Unchanged},
	"the base, as a later one of ours": {xAll(xTheirs("base", 50), xOwn("base")), Unchanged},
	"another host's":                   {xAll(), Lost},
	"another host's, earlier":          {xAll(xTheirs("theirs", 40)), Lost},
	"another host's, no value":         {xAll(xNoValue), Undecided},
	"another host's, the same value":   {xAll(xTheirs("new", 99)), Lost},
	"an older write of ours":           {xAll(xOurs("mine", 60, 6), xOwn("mine")), Unchanged},
	"this write, the answer was lost":  {xAll(xOurs("new", 100, 7)), Own},
	"another write with the number":    {xAll(xOurs("clone", 100, 7)), Lost},
}

var tNothing = func(q *Question) { q.Now = upstream.Version{} }

// contract 5: some callers want their condition to hold upstream. Such a write replaces only the state that met the
// condition. The clocks have no say.
func TestAWriteOnItsBaseIsJudged(t *testing.T) {
	for name, row := range onBaseJudgements {
		t.Run(name, func(t *testing.T) {
			q := &Question{
				Write:   journal.Write{Seq: 7, Op: journal.Put, Value: "new", WrittenAt: 90, UpdatedAt: 90},
				Exactly: &Exactly{Host: "a", Tombstones: true}, Valued: true, OldBefore: 20, OnBase: true,
				Base: journal.Base{Known: true, Present: true, Content: journal.ContentOf(journal.Put, "base"), UpdatedAt: 50},
			}
			xTheirs("theirs", 99)(q)
			for _, change := range row.changes {
				change(q)
			}
			if got := q.Judge(); got != row.want {
				t.Errorf("it is %s, want %s", got, row.want)
			}
		})
	}
}

// An upstream that refuses the fence's read also refuses the write.
func TestARefusedQuestionIsNoReasonToSettle(t *testing.T) {
	for _, op := range []journal.Op{journal.Put, journal.Delete} {
		q := &Question{Write: journal.Write{Op: op}, Refused: true}
		if got := q.Judge(); got != Failed {
			t.Errorf("%s: it is %s", op, got)
		}
	}
}
