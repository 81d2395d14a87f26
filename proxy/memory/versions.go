package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// Version is one state of an entry: a version that the journal keeps, one that upstream keeps, or one that both keep.
// Its Seq is 0 if the journal has no number for it, and it is PastSettled also if it is the settled copy.
type Version struct {
	journal.Past
	Revision  uint64  // upstream's, or the journal's if upstream keeps none; 0 if it has none
	CreatedAt float64 // Unix seconds; 0 if unknown, and for a delete
	Here      bool    // it is a write of this journal
}

// The states of a Version that no [journal.Past] has.
const (
	// VersionAbsent is the present state of an entry that upstream does not hold.
	VersionAbsent journal.PastState = "absent"
	// VersionUnsealed is from before the namespace was sealed, when anybody could write it.
	VersionUnsealed journal.PastState = "unsealed"
)

// Tag returns the entity tag of the write that made a state. It stays the same when the write settles.
func (v *Version) Tag() string {
	if v.Here && v.Seq != 0 {
		return WriteTag(v.Seq, v.Value)
	}
	switch {
	case v.Revision == 0 && v.Op == journal.Delete:
		return `"absent"`
	case v.Revision == 0:
		return `"shown-` + strconv.FormatFloat(v.WrittenAt, 'f', 6, 64) + `"`
	}
	return `"revision-` + strconv.FormatUint(v.Revision, 10) + `"`
}

// lost reports whether the version has lost a conflict between hosts.
func (v *Version) lost() bool { return v.State == journal.PastLost }

func (v *Version) is(op journal.Op, value string) bool { return v.Op == op && v.Value == value }

// Versions returns the versions of an entry that are kept here or upstream, each once: the present one first, then
// the newest first. There is at least one. If to names a version that is kept here, that is among them, however many newer
// ones there are. missing says why those upstream could not be asked for.
func (m *Memory) Versions(caller context.Context, id journal.ID, to VersionName) (versions []Version, missing, err error) {
	return m.versions(caller, id, nil, to)
}

// versions is Versions. now is the present state as a GET shows it; nil if the caller has not asked.
func (m *Memory) versions(caller context.Context, id journal.ID, now *cache.Item, to VersionName) (all []Version, missing, err error) {
	m.Use(id.Namespace)
	if now == nil {
		missing = unlessOvertaken(caller, func() error {
			k, _, err := m.lookOrAsk(id)
			now = k.item
			return err
		})
	}
	here, err := m.versionsHere(id) // before upstream's, so that a write that settles meanwhile is in one of them
	if err != nil {
		return nil, nil, err
	}
	var there []Version
	unknown := missing // why the present state is
	if m.revisions == nil {
		missing = nil
	} else if missing == nil {
		there, missing = m.versionsUpstream(caller, id)
	}
	if missing != nil {
		there = nil // an error may come with some
		_, unavailable := RetryAfter(missing)
		if !unavailable || len(here) == 0 { // guard 9.66
			return nil, nil, missing
		}
	}
	all = together(here, there, m.journal.History.Since() != 0)
	present := slices.IndexFunc(all, func(v Version) bool { return v.State == journal.PastPending })
	switch {
	case present >= 0:
	case len(there) > 0:
		present = slices.IndexFunc(all, func(v Version) bool { return v.Revision != 0 })
	case now != nil && (now.Body != nil || len(all) > 0):
		if all, present, err = withPresent(all, now); err != nil {
			return nil, nil, err
		}
	case len(all) == 0:
		return nil, nil, m.noVersions(id)
	case all[0].State == VersionUnsealed && unknown != nil: // guard 23.49
		return nil, nil, unknown
	}
	if present > 0 {
		first := all[present]
		all = slices.Insert(slices.Delete(all, present, present+1), 0, first)
	}
	all, err = m.withNamed(id, all, to) // guard 13.101
	return all, missing, err
}

// withNamed adds the version here that to names, if it is not among them.
func (m *Memory) withNamed(id journal.ID, all []Version, to VersionName) ([]Version, error) {
	if to.Number == 0 || !to.Write && m.revisions != nil || slices.ContainsFunc(all, func(v Version) bool { return to.names(&v) }) {
		return all, nil
	}
	p, ok, err := m.journal.History.Version(id, to.Number)
	if err != nil || !ok {
		return all, err
	}
	before, err := m.journal.History.Before(id.Namespace)
	return append(all, m.versionOf(&p, before)), err
}

// versionsUpstream asks upstream for the versions of an entry that it keeps, the present one first.
func (m *Memory) versionsUpstream(caller context.Context, id journal.ID) (there []Version, err error) {
	err = m.Ask(caller, id, func(ctx context.Context) (err error) {
		there, err = m.revisions(ctx, id)
		return err
	})
	return there, err
}

func (m *Memory) noVersions(id journal.ID) error {
	why := "it was never written here, or was purged, and upstream has not shown it"
	if at := m.journal.History.Since(); at != 0 {
		why = "it was not written here since " + time.UnixMicro(int64(at*1e6)).UTC().Format(time.RFC3339) +
			", and older versions were removed for room (history.disk)"
	}
	return wire.Detail(statusNotFound, fmt.Sprintf("no version of %s is known: %s", id, why))
}

var errUndoneMeanwhile = wire.Detail(statusPreconditionFailed, "the entry is not as If-Match names it: it was written after you had looked at its versions. Look again")

// VersionName names a version of an entry: by its revision, or as a write by its number in this journal. The zero
// VersionName names none.
type VersionName struct {
	Number uint64
	Write  bool
}

func (n VersionName) String() string {
	if n.Write {
		return "w" + strconv.FormatUint(n.Number, 10)
	}
	return strconv.FormatUint(n.Number, 10)
}

func (n VersionName) names(v *Version) bool {
	number := v.Revision
	if n.Write {
		number = v.Seq
	}
	return number != 0 && number == n.Number
}

// looksForUndo bounds how often an undo looks at an entry whose newest write a GET does not show, because another
// host has written later.
const looksForUndo = 100

// Undo writes an earlier version of an entry again: the one that to names, or without a name the one
// before the newest. It is a write like any other: durable before it is acknowledged, and for all hosts later
// than the version that it undoes. It fails if somebody has written the entry since the caller looked at
// its versions.
func (m *Memory) Undo(ctx context.Context, q *Request, to VersionName) (r Result, undone, now Version, err error) {
	looks := 0
	r, err = m.Update(ctx, q, func(item *cache.Item) (w journal.NewWrite, err error) {
		versions, missing, err := m.versions(ctx, q.ID, item, to)
		if err != nil {
			return w, err
		}
		if looks++; isLater(&versions[0], item) && looks <= looksForUndo {
			return w, journal.ErrChanged // else it might undo another version than it says: Update looks again
		}
		if q.Changed(versions[0].Tag()) {
			return w, errUndoneMeanwhile
		}
		earlier, err := earlierVersion(q.ID, versions, to, missing)
		if err != nil {
			return w, err
		}
		undone, now = versions[0], *earlier
		return writeOf(q.ID, &now.Past), nil
	})
	return r, undone, now, err
}

// writeOf returns the write that makes a version of an entry its state again.
func writeOf(id journal.ID, v *journal.Past) journal.NewWrite {
	if v.Op == journal.Delete {
		return journal.NewWrite{ID: id, Op: journal.Delete}
	}
	return NewPut(id, v.Value)
}

// isLater reports whether a pending version was written after a GET showed now.
func isLater(v *Version, now *cache.Item) bool {
	value, _, exists, err := valueOf(now)
	return err == nil && v.State == journal.PastPending && (exists != (v.Op == journal.Put) || value != v.Value) // guard 13.72
}

// earlierVersion returns the version that to names, or without a name the one before the newest. It skips
// writes that upstream has refused, and other hosts' states that were never in force here, unless to names one. missing
// says why versions may be missing.
func earlierVersion(id journal.ID, versions []Version, to VersionName, missing error) (*Version, error) {
	given := to != VersionName{}
	found := slices.IndexFunc(versions, func(v Version) bool { return given && to.names(&v) })
	if !given && len(versions) > 1 {
		found = slices.IndexFunc(versions[1:], func(v Version) bool { return !v.Apart && v.State != journal.PastDead }) + 1 // guard 13.100
	}
	switch {
	case missing != nil && (found < 0 || !given && found == 0): // guard 9.67
		return nil, missing
	case given && found < 0:
		return nil, wire.Detail(statusNotFound, fmt.Sprintf("revision %s of %s is not kept, or never was", to, id))
	case !given && found <= 0:
		text := fmt.Sprintf("nothing to undo: no version of %s before this one is kept", id)
		if versions[0].Here && versions[0].Op == journal.Put {
			text += ". If this one made the entry, delete it"
		}
		return nil, wire.Detail(statusConflict, text)
	case !given && versions[0].Gap != "": // guard 13.86
		return nil, wire.Detail(statusConflict, fmt.Sprintf("nothing is undone: the version of %s before this one %s. "+
			"Name an older one: --to REVISION with botwired undo, to over HTTP", id, gapTexts[versions[0].Gap]))
	case !given && versions[found].State == VersionUnsealed: // guard 23.44
		return nil, wire.Detail(statusConflict, fmt.Sprintf("nothing to undo: the version of %s before this one is from before the namespace "+
			"was sealed, when anybody could write it. To have it all the same, name its revision", id))
	case found == 0, versions[0].Op == journal.Delete && versions[found].Op == journal.Delete:
		return nil, wire.Detail(statusConflict, fmt.Sprintf("nothing to undo: %s is as that version has it", id))
	}
	return &versions[found], nil
}

// gapTexts says why the version before one is missing.
var gapTexts = map[journal.Gap]string{
	journal.GapForgotten: "was, or may have been, removed for room (history.disk)",
	journal.GapDamaged:   "is damaged",
}

const versionsListed = 100

func (m *Memory) versionsHere(id journal.ID) ([]Version, error) {
	kept, err := m.journal.History.Of(id, versionsListed)
	if err != nil {
		return nil, err
	}
	before, err := m.journal.History.Before(id.Namespace)
	versions := make([]Version, len(kept))
	for i := range kept {
		versions[i] = m.versionOf(&kept[i], before)
	}
	return versions, err
}

// versionOf returns a version that is kept here. before is the number of the last one from before the namespace was sealed.
func (m *Memory) versionOf(p *journal.Past, before uint64) Version {
	v := Version{Past: *p, Here: !p.Shown}
	if v.Here {
		v.Host = m.host
	}
	if m.revisions == nil && v.State != journal.PastPending {
		v.Revision = v.Seq // upstream has no numbers of its own
	}
	switch {
	case v.Seq <= before && v.State != journal.PastDead:
		v.State = VersionUnsealed
	case v.State == journal.PastCurrent:
		v.State = journal.PastSettled
	}
	return v
}

// Lost returns up to limit versions that have lost a conflict between two hosts: see [journal.History.Lost].
func (m *Memory) Lost(namespace string, before uint64, limit int) ([]Version, error) {
	lost, err := m.journal.History.Lost(namespace, before, limit)
	versions := make([]Version, len(lost))
	for i := range lost {
		versions[i] = m.versionOf(&lost[i], 0)
	}
	return versions, err
}

// together returns the versions that are kept here and those that are kept upstream, each once, newest first. Both
// are newest first. A version in both is upstream's, with the number that it has here. Numbers decide which of two
// is newer, and the writers' clocks if one has no number. Upstream was seen without the entry because of the
// delete beside that version. trimmed says that versions here were removed for room.
func together(here, there []Version, trimmed bool) (all []Version) {
	newest := uint64(math.MaxUint64) // a later write is not among the versions here yet
	if len(here) > 0 {
		newest = here[0].Seq
	}
	for i := range there {
		v := &there[i]
		// Nobody knows which write here an own one has replaced, if its version here is gone.
		if v.Here && v.Seq != 0 && v.Seq <= newest && trimmed { // guard 13.87
			v.Gap = journal.GapForgotten
		}
		here = slices.DeleteFunc(here, func(mine Version) bool {
			same := isSame(&mine, v)
			if same {
				v.Seq, v.Gap, v.Follows = mine.Seq, mine.Gap, mine.Follows
				if mine.lost() { // guard 17.74
					v.State, v.LostAt = mine.State, mine.LostAt
				}
			}
			return same
		})
	}
	for len(here) > 0 && len(there) > 0 {
		mine, theirs := &here[0], &there[0]
		newer := mine.WrittenAt >= theirs.WrittenAt
		if theirs.Seq != 0 {
			newer = mine.Seq > theirs.Seq // guard 13.66
		}
		switch {
		case !newer:
			all, there = append(all, *theirs), there[1:]
		case mine.Op == journal.Delete && !mine.Here && (theirs.Op == journal.Delete || len(all) > 0 && all[len(all)-1].Op == journal.Delete):
			here = here[1:]
		default:
			all, here = append(all, *mine), here[1:]
		}
	}
	all = append(append(all, here...), there...)
	for i := range all { // upstream may keep what is gone here
		v := &all[i]
		if v.Follows != 0 && slices.ContainsFunc(all, func(o Version) bool { return o.Here && o.Seq == v.Follows }) {
			v.Gap = ""
		}
	}
	return all
}

// isSame reports whether a version here is one that upstream keeps: this daemon's write of that number, or a version
// that upstream has shown.
func isSame(here, there *Version) bool {
	if !here.is(there.Op, there.Value) {
		return false
	}
	if here.Here { // guard 13.67
		return there.Here && here.Seq == there.Seq
	}
	return here.Host == there.Host && here.WrittenAt == there.WrittenAt // guard 13.68
}

// withPresent returns the index of the present version. The newest version may be another one: upstream has refused
// it, or a person has dropped it. If the present version is not among them, withPresent adds it.
func withPresent(versions []Version, now *cache.Item) (all []Version, present int, err error) {
	v := Version{Past: journal.Past{State: VersionAbsent, Op: journal.Delete, WrittenAt: float64(now.ConfirmedAt.UnixMicro()) / 1e6}}
	value, updatedAt, exists, err := valueOf(now)
	if exists {
		v.Past = journal.Past{State: journal.PastShown, Op: journal.Put, Value: value, WrittenAt: updatedAt}
	}
	present = slices.IndexFunc(versions, func(s Version) bool {
		return !s.lost() && s.State != journal.PastGone && s.State != journal.PastDead && s.State != VersionUnsealed && s.State != journal.PastSuperseded && s.is(v.Op, v.Value)
	})
	if present >= 0 {
		return versions, present, err
	}
	return slices.Insert(versions, 0, v), 0, err
}
