package recovery

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// recoveryGap is the gap between the highest known sequence number and the next one of a recovered
// journal. It is larger than the number of writes that can have been acknowledged since the last mark,
// so that no number is used twice.
const recoveryGap = 1 << 20

// Options configures [Recover].
type Options struct {
	Dir string    // the journal's directory
	FS  vfs.FS    // holds Dir; nil means the operating system's
	Now time.Time // used in the name of the copy
	// Progress is called while a damaged journal is recovered, with the number of tables and logs read so
	// far, and of all.
	Progress func(read, of int)
}

// Recover repairs a journal that cannot be opened. It copies the directory aside, reads the records
// that pass their checks, and writes them to a new journal, which replaces the old one by a rename.
// Afterwards nobody knows what was sent, and when: see Journal.Left and Journal.LastSending. Recover leaves a healthy
// journal unchanged.
//
// Errors: [store.ErrInUse], [store.ErrFormat] for another format, [record.ErrCorrupt] or
// [store.ErrFormat] if no record can be read, and those of the file system. An error before the final
// renames leaves the directory unchanged. After a later error, the next call finishes the work.
func Recover(opts Options) (*Recovery, error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.Progress == nil {
		opts.Progress = func(int, int) {}
	}
	r, err := recoverDir(opts)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", opts.Dir, store.OneLine(err))
	}
	return r, nil
}

func recoverDir(opts Options) (_ *Recovery, err error) {
	finished, err := undoSwap(opts.FS, opts.Dir)
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
		damage = examine(stored)
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

// task is the recovery of one directory.
type task struct {
	opts   Options
	found  *salvage
	source source // of the records
	whole  bool   // no change is missing from the source, as far as the files show
	newest bool   // the source shows the newest version of all copies
	report Recovery
}

// salvaged copies the directory aside, and replaces it with a journal of the salvageable records.
func salvaged(stored store.Options, opts Options, damage error) (_ *Recovery, err error) {
	fsys, dir := opts.FS, opts.Dir
	if err := RemoveWork(fsys, dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, RemoveWork(fsys, dir)) }()
	t := &task{opts: opts, report: Recovery{Found: store.OneLine(damage).Error()}}
	if t.found, err = readStore(fsys, dir, opts.Progress); err != nil {
		return nil, fmt.Errorf("reading the directory: %w", err)
	}
	defer func() { err = errors.Join(err, t.found.records.close()) }()
	v := openView(stored)
	kept, err := t.choose(v)
	if err == nil && !t.found.stated && kept.records == 0 {
		err = fmt.Errorf("%w, and no record of it can be read, so there is nothing to salvage: "+
			"to start with a new journal, move the directory away", damage)
	}
	if err == nil {
		err = t.replacement(kept)
	}
	if err = errors.Join(err, v.close()); err == nil {
		err = keepReport(fsys, &t.report) // guard 4.19
	}
	if err != nil {
		return nil, err
	}
	return &t.report, swap(fsys, dir, t.report.Copy)
}

// choose decides where the records come from, and sifts them. If Pebble's view of the store shows all
// that the newest state record counts, the records come from the view. Otherwise they come from the
// files, and from the view where only the view shows them.
//
// The state record counts pending writes and dead letters, but no copies. Only the view knows which
// version of a copy is the newest, and only if it can read all copies and lacks no change.
func (t *task) choose(v *view) (*sifter, error) {
	if v != nil {
		totals, err := store.ReadTotals(v.db)
		if err == nil {
			t.found.state(&totals)
		}
		t.whole = err == nil && totals.Batches == t.found.newest.Batches // guard 7.1
		t.source = v
		if kept, err := sift(v); t.found.stated && t.found.newest.Compare(kept.totals) == nil && v.hasWrites() {
			t.newest = t.whole && err == nil && v.hasCopies()
			return kept, nil
		}
	}
	t.whole = false
	t.source = &merged{found: t.found.records, view: v}
	return sift(t.source)
}

// replacement copies the directory aside and builds the journal that will replace it.
func (t *task) replacement(kept *sifter) (err error) {
	fsys, dir := t.opts.FS, t.opts.Dir
	if t.report.Copy, err = unusedName(fsys, dir, t.opts.Now); err == nil {
		err = copyDamaged(fsys, dir)
	}
	if err != nil {
		return fmt.Errorf("copying the directory aside: %w", err)
	}
	m, err := store.ReadMark(fsys, dir)
	if err != nil {
		t.found.unread = append(t.found.unread, store.MarkFile+": whether writes came after the last state record is not known")
	}
	t.whole = t.whole && err == nil
	t.account(kept, m)
	err = build(fsys, madeName(dir), &content{
		records: t.source, valueless: kept.valueless, listings: t.report.Salvaged.Listings > 0, settled: t.report.Salvaged.Settled > 0,
		damagedVersions: kept.damagedVersions,
		batches:         t.found.newest.Batches, lastSeq: t.report.NextSeq - 1,
	})
	if err != nil {
		return fmt.Errorf("making the new journal: %w", err)
	}
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
	t.whole = t.whole && missing.LastSeq == 0 && missing.Changes == 0
	if t.whole {
		missing.Files = nil // only copies and old versions of records cannot be read
	}
	t.cutCopies()
	r.NextSeq = last + recoveryGap + 1
}

// cutCopies drops the copies that may be older than what readers have seen.
func (t *task) cutCopies() {
	r, newest := &t.report, t.whole && t.newest // guard 4.16
	if !newest {
		r.Missing.CopiesCut = r.Salvaged.Settled > 0
		r.Salvaged.Settled = 0
	}
	if !newest || !r.Complete() {
		r.Missing.ListingsCut = r.Salvaged.Listings > 0
		r.Salvaged.Listings = 0
	}
}
