package recovery

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// recoveryGap is the gap between the highest known sequence number and the next one of a recovered
// journal. It is larger than the number of writes that can have been acknowledged since the last mark,
// so that no number is used twice.
const recoveryGap = 1 << 20

// keptAtMost is how many damaged directories may be beside a journal when a start mends it. A disk that damages each journal
// anew needs a person, and must not fill with them.
const keptAtMost = 2

// Options configures [Recover].
type Options struct {
	Dir string    // the journal's directory
	FS  vfs.FS    // holds Dir; nil means the operating system's
	Now time.Time // used in the name of the damaged directory
	// Progress is called while a damaged journal is recovered, with the number of tables and logs read so
	// far, and of all.
	Progress func(read, of int)
	// Whole says to recover a journal only if no pending write and no dead letter is missing, and if fewer than two damaged
	// directories are kept beside it. Otherwise, Recover returns the damage.
	Whole bool
	// Trial says to change nothing, except for files that Recover needs while it reads.
	Trial bool
	// AwaitRoom, if not nil, is called while fewer bytes are free than the recovery may need, and with 0 as soon as
	// there are enough. Its error ends the recovery.
	AwaitRoom func(needed int64) error
}

// Recover repairs a journal that cannot be opened. It writes the records that pass their checks to a new journal, which
// takes the place of the old one, and keeps the old one aside.
// Afterwards nobody knows what was sent, and when: see Journal.Left and Journal.LastSending. Recover leaves a healthy
// journal unchanged.
//
// Errors: [store.ErrInUse], [store.ErrFormat] for another format, [record.ErrCorrupt] or
// [store.ErrFormat] if no record can be read, and those of the file system. An error before the final
// renames leaves the directory unchanged. After a later error, the next call or start finishes the work.
func Recover(opts Options) (*Recovery, error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.Progress == nil {
		opts.Progress = func(int, int) {}
	}
	r, err := recoverDir(opts)
	if err != nil && opts.Whole {
		return nil, err // a start says which journal
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", opts.Dir, store.OneLine(err))
	}
	return r, nil
}

func recoverDir(opts Options) (_ *Recovery, err error) {
	finished := false
	if !opts.Trial {
		finished, err = FinishSwap(opts.FS, opts.Dir)
	}
	if err == nil {
		_, err = opts.FS.Stat(opts.Dir)
	}
	if err != nil {
		return nil, err
	}
	stored := storeOptions(opts.FS, opts.Dir)
	if stored.Lock, err = store.LockDir(opts.FS, opts.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stored.Lock.Close()) }()
	exists, damage := store.CheckFormat(opts.FS, opts.Dir)
	if errors.Is(damage, store.ErrFormat) && !errors.Is(damage, store.ErrNoFormat) {
		return nil, damage
	}
	if !exists && damage == nil {
		return &Recovery{Healthy: true}, nil // nothing was ever acknowledged in it
	}
	if damage == nil {
		damage = store.Examine(stored, true, checkRecords)
	}
	if damage == nil && finished {
		return lastReport(opts.FS, opts.Dir)
	}
	if damage == nil {
		return &Recovery{Healthy: true}, nil
	}
	if !errors.Is(damage, record.ErrCorrupt) && !errors.Is(damage, store.ErrFormat) {
		return nil, damage
	}
	return salvaged(stored, opts, damage)
}

// salvaged replaces the directory with a journal of the records that can be read. Without room on the disk, it waits if it
// may.
func salvaged(stored store.Options, opts Options, damage error) (*Recovery, error) {
	if opts.Whole {
		if err := fewAside(opts, damage); err != nil { // guard 4.41
			return nil, err
		}
	}
	size, err := sizeOf(opts.FS, opts.Dir)
	if err != nil {
		return nil, err
	}
	stored.AwaitRoom = opts.AwaitRoom
	needed := size
	for {
		if err := store.AwaitRoom(stored, func() (int64, error) { return needed, nil }); err != nil { // guard 4.46
			return nil, err
		}
		t := &task{opts: opts, damage: damage, found: new(salvage), report: Recovery{Found: store.OneLine(damage).Error()}}
		err := t.salvage(stored)
		if err == nil {
			return &t.report, nil
		}
		if opts.AwaitRoom == nil || !diskfs.IsFull(err) { // guard 4.42
			return nil, err
		}
		needed = 2 * size // or others have taken the room
		if err := opts.AwaitRoom(needed); err != nil {
			return nil, err
		}
	}
}

// fewAside returns the damage if as many damaged directories are kept as may be.
func fewAside(opts Options, damage error) error {
	kept, err := Aside(opts.FS, opts.Dir)
	if err != nil {
		return err
	}
	if len(kept) < keptAtMost {
		return nil
	}
	return fmt.Errorf("%w; botwired has mended it before, and mends it again once the disk is checked and these are deleted or moved away: %s",
		damage, strings.Join(kept, ", "))
}

func sizeOf(fsys vfs.FS, dir string) (size int64, err error) {
	names, err := fsys.List(dir)
	for _, name := range names {
		info, statErr := fsys.Stat(fsys.PathJoin(dir, name))
		if statErr != nil {
			return 0, statErr
		}
		size += info.Size()
	}
	return size, err
}

// task is the recovery of one directory.
type task struct {
	opts   Options
	damage error
	found  *salvage
	source source // of the records
	// whole says that no change is missing from the source: the copies that it has are the newest.
	whole  bool
	report Recovery
}

func (t *task) salvage(stored store.Options) (err error) {
	fsys, dir := t.opts.FS, t.opts.Dir
	if err := RemoveWork(fsys, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, RemoveWork(fsys, dir)) }()
	defer func() { err = errors.Join(err, t.found.close()) }()
	v := openView(stored)
	kept, err := t.choose(v, stored)
	if err == nil && !t.found.stated && kept.records == 0 {
		err = fmt.Errorf("%w, and no record of it can be read, so there is nothing to salvage: "+
			"to start with a new journal, move the directory away", t.damage)
	}
	if err == nil {
		err = t.replacement(kept)
	}
	if err = errors.Join(err, v.close()); err != nil || t.opts.Trial {
		return err
	}
	if err := keepReport(fsys, &t.report); err != nil { // guard 4.19
		return err
	}
	return swap(fsys, dir, t.report.Copy)
}

// choose decides where the records come from, and sifts them. If Pebble's view of the store shows all
// that the newest state record counts, the records come from the view. Otherwise they come from the
// files, and from the view where only the view shows them.
//
// The state record counts pending writes and dead letters, but no copies. Only the view knows which
// version of a copy is the newest, and only if it lacks no change.
func (t *task) choose(v *view, stored store.Options) (*sifter, error) {
	var shown *sifter // by the view, which has all that its state record counts
	if v != nil {
		totals, err := store.ReadTotals(v.db)
		if err == nil {
			t.found.state(&totals)
			shown, err = sift(v)
		}
		if err != nil || totals.Compare(shown.totals) != nil {
			shown = nil
		}
	}
	if shown != nil {
		t.source = v
		mark, err := store.Check(stored)
		if t.whole = err == nil && mark.Reached(t.found.newest) == nil; t.whole { // guard 7.1
			return shown, nil
		}
	}
	if shown == nil && t.opts.Whole { // guard 4.43
		return nil, t.damage
	}
	counted := t.found.newest
	if err := t.found.read(t.opts.FS, t.opts.Dir, t.opts.Progress); err != nil {
		return nil, fmt.Errorf("reading the directory: %w", err)
	}
	if shown != nil && t.found.newest == counted {
		return shown, nil
	}
	t.source = &merged{found: t.found.records, view: v}
	return sift(t.source)
}

// replacement builds the journal that will replace the directory.
func (t *task) replacement(kept *sifter) (err error) {
	fsys, dir := t.opts.FS, t.opts.Dir
	if t.report.Copy, err = unusedName(fsys, dir, t.opts.Now); err != nil {
		return err
	}
	m, err := store.ReadMark(fsys, dir)
	if err != nil {
		t.found.unread = append(t.found.unread, store.MarkFile+": whether writes came after the last state record is not known")
	}
	t.account(kept, m)
	if t.opts.Whole && !t.report.Complete() { // guard 4.45
		return t.damage
	}
	if t.opts.Trial {
		return nil
	}
	made := &content{
		records: t.source, valueless: kept.valueless, listings: t.report.Salvaged.Listings > 0, settled: t.report.Salvaged.Settled > 0,
		damagedVersions: kept.damagedVersions,
		batches:         t.found.newest.Batches, lastSeq: t.report.NextSeq - 1,
	}
	if v, ok := t.source.(*view); ok {
		made.lacksVersion = v.lacksVersion
	}
	if kept.lacksHistory() { // guard 4.34
		made.forgottenUpTo = float64(t.opts.Now.Unix())
	}
	if err = build(fsys, buildingName(dir), made); err != nil {
		return fmt.Errorf("making the new journal: %w", err)
	}
	t.report.Salvaged.Settled = made.settledKept
	return nil
}

// account fills in the report: what was salvaged, what is missing, and the next sequence number. It
// also decides whether copies and listings are kept: see cutCopies.
func (t *task) account(kept *sifter, m store.Mark) {
	r, found := &t.report, t.found
	r.Salvaged = kept.counts
	missing := &r.Missing
	missing.Known = found.stated
	missing.Records, missing.Files = kept.damagedNames(), found.unread
	last := max(m.Seq, found.newest.Seq, kept.totals.Seq)
	if found.stated {
		missing.Differs = found.newest.Compare(kept.totals) != nil
		missing.Pending = max(0, int(found.newest.Pending)-kept.counts.Pending, kept.damagedPending)
		missing.DeadLetters = max(0, int(found.newest.Dead)-kept.counts.DeadLetters)
	}
	if known := max(found.newest.Seq, kept.totals.Seq); m.Seq > known {
		missing.FirstSeq, missing.LastSeq = known+1, m.Seq
	}
	if m.Batches > found.newest.Batches {
		missing.Changes = m.Batches - found.newest.Batches
	}
	t.cutCopies(kept.lacksCopies())
	r.NextSeq = last + recoveryGap + 1
}

// cutCopies drops the copies that may be older than what readers have seen, and the listings if an entry in them may be
// known by a lost copy alone: they would deny it.
func (t *task) cutCopies(lacks bool) {
	r := &t.report
	r.Missing.CopiesCut = r.Salvaged.Settled > 0 && (!t.whole || lacks)
	if !t.whole { // guard 4.16
		r.Salvaged.Settled = 0
	}
	if !t.whole || lacks || !r.Complete() { // guard 4.24
		r.Missing.ListingsCut = r.Salvaged.Listings > 0
		r.Salvaged.Listings = 0
	}
}
