package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/internal/store/diskfs"
)

// recoveryGap is how far beyond the highest known sequence number a recovered journal
// goes on: more than can have been acknowledged since the last mark, so that no
// number is given out twice.
const recoveryGap = 1 << 20

// Options configures [Recover].
type Options struct {
	Dir string    // of the journal
	FS  vfs.FS    // holds Dir; nil means the operating system's
	Now time.Time // names the copy
}

// Salvaged counts records.
type Salvaged struct {
	Pending     int `json:"pending"` // superseded ones that awaited removal included
	DeadLetters int `json:"dead_letters"`
	Settled     int `json:"settled"`
	SentMarks   int `json:"sent_marks"`
	Listings    int `json:"listings"`
}

// Missing is what is known to be lost. Counts are the least that it can be.
type Missing struct {
	Known       bool     `json:"known"`   // a state record was found: the counts are of its moment
	Pending     int      `json:"pending"` // pending writes
	DeadLetters int      `json:"dead_letters"`
	Changes     uint64   `json:"changes"`       // the last ones, writes and what became of them
	Differs     bool     `json:"differs"`       // from what there was: what had left may be back in the place of what is missing
	FirstSeq    uint64   `json:"first_seq"`     // of the last writes, of which nothing is known
	LastSeq     uint64   `json:"last_seq"`      // 0 when there are none
	Records     []string `json:"records"`       // read, and not as they were written
	Files       []string `json:"files"`         // that could not be read in full
	ListingsCut bool     `json:"listings_lost"` // given up: a listing that lacks a row would deny an entry
}

// Recovery is what [Recover] found and did.
type Recovery struct {
	Healthy  bool     `json:"healthy"` // nothing was changed
	Found    string   `json:"found"`   // what was wrong
	Copy     string   `json:"copy"`    // where the damaged directory is
	Salvaged Salvaged `json:"salvaged"`
	Missing  Missing  `json:"missing"`
	NextSeq  uint64   `json:"next_seq"` // the next write's sequence number
}

// Complete reports whether everything that was acknowledged is there, as far as can be
// known.
func (r *Recovery) Complete() bool {
	m := &r.Missing
	return r.Healthy || m.Known && !m.Differs && m.Pending == 0 && m.DeadLetters == 0 && m.LastSeq == 0 && m.Changes == 0 &&
		len(m.Records) == 0 && len(m.Files) == 0
}

// replacedName is where a journal is while the recovered one takes its place. As long
// as it is there and the journal is not, [Open] refuses to make a new one.
func replacedName(dir string) string { return dir + ".replaced" }

// Recover makes a journal that can be opened of one that cannot: it copies the
// directory aside, reads what checks, and puts it into a new journal that takes the
// place of the old one by a rename. Every entry with a pending write is in doubt
// afterwards. A journal that is as it should be is left as it is.
//
// Errors: [store.ErrInUse], [store.ErrFormat] for a newer format, [record.ErrCorrupt] when nothing of a
// journal is found, and those of the file system; then the directory is as it was.
func Recover(opts Options) (*Recovery, error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	r, err := recoverDir(opts)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", opts.Dir, store.OneLine(err))
	}
	return r, nil
}

func recoverDir(opts Options) (_ *Recovery, err error) {
	if err := undoSwap(opts.FS, opts.Dir); err != nil {
		return nil, err
	}
	stored := storeOptions(opts.FS, opts.Dir)
	if stored.Lock, err = store.LockDir(opts.FS, opts.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stored.Lock.Close()) }()
	version, damage := store.CheckFormat(opts.FS, opts.Dir)
	if version > store.FormatVersion {
		return nil, damage
	}
	if version == 0 && damage == nil {
		return &Recovery{Healthy: true}, nil // nothing was ever acknowledged in it
	}
	if damage == nil {
		damage = examine(stored, version)
	}
	if damage == nil {
		return &Recovery{Healthy: true}, nil
	}
	if !errors.Is(damage, record.ErrCorrupt) && !errors.Is(damage, store.ErrFormat) {
		return nil, damage
	}
	return salvaged(stored, version, opts.Now, damage)
}

// undoSwap takes back a replacement that was cut off between its two renames, and
// removes what one that was cut off after them has left.
func undoSwap(fsys vfs.FS, dir string) error {
	replaced := replacedName(dir)
	if _, err := fsys.Stat(replaced); errors.Is(err, fs.ErrNotExist) {
		_, err := fsys.Stat(dir)
		return err
	}
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fsys.RemoveAll(replaced))
	}
	if err := fsys.Rename(replaced, dir); err != nil {
		return err
	}
	return store.SyncDir(fsys, fsys.PathDir(dir))
}

// CheckSwap refuses to make a journal where a recovery was cut off.
func CheckSwap(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(replacedName(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w: a recovery was cut off, and is to be begun again", record.ErrCorrupt)
}

// storeOptions are those of a store that nobody else uses.
func storeOptions(fsys vfs.FS, dir string) store.Options {
	return store.Options{Dir: dir, FS: fsys, Readers: new(sync.Mutex), Logger: slog.New(slog.DiscardHandler)}
}

// salvaged copies the directory aside, and replaces it by what can be salvaged.
func salvaged(opts store.Options, version int, now time.Time, damage error) (*Recovery, error) {
	fsys, dir := opts.FS, opts.Dir
	s, err := readStore(fsys, dir)
	if err != nil {
		return nil, err
	}
	s.addView(opts)
	if !s.stated && len(sift(s.records).keys) == 0 {
		return nil, fmt.Errorf("%w, and nothing of a journal is found in it", damage)
	}
	r := &Recovery{Found: store.OneLine(damage).Error()}
	if r.Copy, err = copyDamaged(fsys, dir, now); err != nil {
		return nil, fmt.Errorf("copying the directory aside: %w", err)
	}
	kept := sift(s.records)
	m, err := store.ReadMark(fsys, dir)
	if version == store.FormatVersion && err != nil {
		s.unread = append(s.unread, store.MarkFile+": whether writes came after the last state record is not known")
	}
	r.account(s, kept, m)
	made := dir + ".recovering"
	if err := build(fsys, made, s, kept, r); err != nil {
		return nil, fmt.Errorf("making the new journal: %w", errors.Join(err, fsys.RemoveAll(made)))
	}
	return r, swap(fsys, dir, made)
}

// account says what was salvaged and what is missing.
func (r *Recovery) account(s *salvage, kept *sifted, m store.Mark) {
	r.Salvaged = kept.counts
	lost := &r.Missing
	lost.Known = s.stated
	lost.Records, lost.Files = kept.damaged, s.unread
	last := max(m.Seq, s.newest.Seq, kept.totals.Seq)
	if s.stated {
		lost.Differs = s.newest.Compare(kept.totals) != nil
		lost.Pending = max(0, int(s.newest.Pending)-kept.counts.Pending)
		lost.DeadLetters = max(0, int(s.newest.Dead)-kept.counts.DeadLetters)
	}
	if known := max(s.newest.Seq, kept.totals.Seq); m.Seq > known {
		lost.FirstSeq, lost.LastSeq = known+1, m.Seq
	}
	if m.Batches > s.newest.Batches {
		lost.Changes = m.Batches - s.newest.Batches
	}
	if !r.Complete() {
		lost.ListingsCut = r.Salvaged.Listings > 0
		r.Salvaged.Listings = 0
	}
	r.NextSeq = last + recoveryGap + 1
}

// copyDamaged copies a directory, durably, to a name that is free.
func copyDamaged(fsys vfs.FS, dir string, now time.Time) (string, error) {
	base := dir + ".damaged-" + now.UTC().Format("20060102T150405Z")
	to := base
	for i := 2; ; i++ {
		if _, err := fsys.Stat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
		to = fmt.Sprint(base, "-", i)
	}
	isLock := func(path string) bool { return fsys.PathBase(path) == "LOCK" }
	if _, err := vfs.Clone(fsys, diskfs.Private(fsys), dir, to, vfs.CloneSync, vfs.CloneSkip(isLock)); err != nil {
		return "", err
	}
	return to, errors.Join(store.SyncDir(fsys, to), store.SyncDir(fsys, fsys.PathDir(to)))
}

// build makes a journal of the records that check, and checks it.
func build(fsys vfs.FS, dir string, s *salvage, kept *sifted, r *Recovery) (err error) {
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir, diskfs.DirMode); err != nil {
		return err
	}
	opts := storeOptions(fsys, dir)
	if opts.Lock, err = store.LockDir(fsys, dir); err != nil {
		return err
	}
	if err := store.Create(opts); err != nil {
		return errors.Join(err, opts.Lock.Close())
	}
	made, err := store.Open(opts)
	if err != nil {
		return errors.Join(err, opts.Lock.Close())
	}
	if err := refill(made, s, kept, r); err != nil {
		return errors.Join(err, made.Close())
	}
	found, err := store.Count(made.DB(), func(record.ID, record.Version) error { return nil })
	if err == nil {
		want := made.Totals()
		err = want.Compare(found)
	}
	return errors.Join(err, made.Close())
}

// refill puts the salvaged records into a new store, and last the totals that count them.
func refill(made *store.Store, s *salvage, kept *sifted, r *Recovery) error {
	load := made.Load()
	for _, key := range kept.keys {
		if kind := key[:2]; r.Missing.ListingsCut && (kind == record.HeaderPrefix || kind == record.RowPrefix) {
			continue
		}
		if err := load.Set([]byte(key), s.records[key].value); err != nil {
			return err
		}
	}
	for id, seq := range kept.newest {
		key := record.EntryKey(record.SentPrefix, id)
		if err := load.Set(key, record.EncodeSent(key, seq)); err != nil {
			return err
		}
	}
	kept.totals.Batches = max(s.newest.Batches, made.Totals().Batches)
	kept.totals.Seq = r.NextSeq - 1
	return load.Finish(kept.totals)
}

// swap puts made in the place of dir. Whatever cuts it off, one of the two is there, or
// [Open] refuses and [Recover] begins again.
func swap(fsys vfs.FS, dir, made string) error {
	parent := fsys.PathDir(dir)
	if err := fsys.Rename(dir, replacedName(dir)); err != nil {
		return err
	}
	if err := store.SyncDir(fsys, parent); err != nil {
		return err
	}
	if err := fsys.Rename(made, dir); err != nil {
		return err
	}
	if err := store.SyncDir(fsys, parent); err != nil {
		return err
	}
	return fsys.RemoveAll(replacedName(dir))
}
