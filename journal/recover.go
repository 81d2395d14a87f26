package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// recoveryGap is how far beyond the highest known sequence number a recovered journal
// goes on: more than can have been acknowledged since the last mark, so that no
// number is given out twice.
const recoveryGap = 1 << 20

// RecoverOptions configures [Recover].
type RecoverOptions struct {
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
// Errors: [ErrInUse], [ErrFormat] for a newer format, [ErrCorrupt] when nothing of a
// journal is found, and those of the file system; then the directory is as it was.
func Recover(opts RecoverOptions) (*Recovery, error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	r, err := recoverDir(opts)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", opts.Dir, oneLine{err})
	}
	return r, nil
}

func recoverDir(opts RecoverOptions) (_ *Recovery, err error) {
	if err := undoSwap(opts.FS, opts.Dir); err != nil {
		return nil, err
	}
	j := newJournal(Options{Dir: opts.Dir, FS: opts.FS})
	j.closing.Store(true)
	if j.lock, err = pebble.LockDirectory(opts.Dir, opts.FS); err != nil {
		return nil, lockError(err)
	}
	defer func() { err = errors.Join(err, j.lock.Close()) }()
	version, damage := checkFormat(opts.FS, opts.Dir)
	if version > formatVersion {
		return nil, damage
	}
	if version == 0 && damage == nil {
		return &Recovery{Healthy: true}, nil // nothing was ever acknowledged in it
	}
	if damage == nil {
		damage = j.examine(version)
	}
	if damage == nil {
		return &Recovery{Healthy: true}, nil
	}
	if !errors.Is(damage, ErrCorrupt) && !errors.Is(damage, ErrFormat) {
		return nil, damage
	}
	return j.recover(version, opts.Now, damage)
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
	return syncDir(fsys, fsys.PathDir(dir))
}

// checkSwap refuses to make a journal where a recovery was cut off.
func checkSwap(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(replacedName(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w: a recovery was cut off, and is to be begun again", ErrCorrupt)
}

// examine says what is wrong with a store, and changes nothing.
func (j *Journal) examine(version int) error {
	var m mark
	if version == formatVersion {
		var err error
		if m, err = readMark(j.opts.FS, j.opts.Dir); err != nil {
			return err
		}
		if err := m.checkManifest(j.opts.FS, j.opts.Dir); err != nil {
			return err
		}
	}
	if err := checkLogs(j.opts.FS, j.opts.Dir, m); err != nil {
		return err
	}
	db, err := j.openReadOnly()
	if err != nil {
		return err
	}
	return storeError(errors.Join(examineRecords(db, m), db.Close()))
}

func examineRecords(db *pebble.DB, m mark) error {
	t, err := readTotals(db)
	if err != nil {
		return err
	}
	if err := m.reached(t); err != nil {
		return err
	}
	found, err := count(context.Background(), db, func([]retired) {})
	if err != nil {
		return err
	}
	if err := compareTotals(found, t); err != nil {
		return err
	}
	var s sifted
	for _, prefix := range []string{settledPrefix, sentPrefix, headerPrefix, rowPrefix} {
		err := scan(db, []byte(prefix), func(key, body []byte, _ uint32) error { return s.addCopy(key, body) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) openReadOnly() (*pebble.DB, error) {
	opts := j.storeOptions()
	opts.ReadOnly = true
	return openPebble(j.opts.Dir, opts)
}

// recover copies the directory aside, and replaces it by what can be salvaged.
func (j *Journal) recover(version int, now time.Time, damage error) (*Recovery, error) {
	fsys, dir := j.opts.FS, j.opts.Dir
	s, err := readStore(fsys, dir)
	if err != nil {
		return nil, err
	}
	s.addView(j)
	if !s.stated && len(sift(s.records).keys) == 0 {
		return nil, fmt.Errorf("%w, and nothing of a journal is found in it", damage)
	}
	r := &Recovery{Found: oneLine{damage}.Error()}
	if r.Copy, err = copyDamaged(fsys, dir, now); err != nil {
		return nil, fmt.Errorf("copying the directory aside: %w", err)
	}
	kept := sift(s.records)
	m, err := readMark(fsys, dir)
	if version == formatVersion && err != nil {
		s.unread = append(s.unread, markFile+": whether writes came after the last state record is not known")
	}
	r.account(s, kept, m)
	made := dir + ".recovering"
	if err := build(fsys, made, s, kept, r); err != nil {
		return nil, fmt.Errorf("making the new journal: %w", errors.Join(err, fsys.RemoveAll(made)))
	}
	return r, swap(fsys, dir, made)
}

// account says what was salvaged and what is missing.
func (r *Recovery) account(s *salvage, kept *sifted, m mark) {
	r.Salvaged = kept.counts
	lost := &r.Missing
	lost.Known = s.stated
	lost.Records, lost.Files = kept.damaged, s.unread
	last := max(m.seq, s.newest.seq, kept.totals.seq)
	if s.stated {
		lost.Differs = compareTotals(kept.totals, s.newest) != nil
		lost.Pending = max(0, int(s.newest.pending)-kept.counts.Pending)
		lost.DeadLetters = max(0, int(s.newest.dead)-kept.counts.DeadLetters)
	}
	if known := max(s.newest.seq, kept.totals.seq); m.seq > known {
		lost.FirstSeq, lost.LastSeq = known+1, m.seq
	}
	if m.batches > s.newest.batches {
		lost.Changes = m.batches - s.newest.batches
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
	if _, err := vfs.Clone(fsys, privateFS{fsys}, dir, to, vfs.CloneSync, vfs.CloneSkip(isLock)); err != nil {
		return "", err
	}
	return to, errors.Join(syncDir(fsys, to), syncDir(fsys, fsys.PathDir(to)))
}

// build makes a journal of the records that check, and checks it.
func build(fsys vfs.FS, dir string, s *salvage, kept *sifted, r *Recovery) error {
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	j, err := Open(Options{Dir: dir, FS: fsys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := j.refill(s, kept, r); err != nil {
		return errors.Join(err, j.Close())
	}
	return errors.Join(j.Run(context.Background()), j.Close())
}

// refillBytes is how much of the salvaged records one batch takes.
const refillBytes = 1 << 20

func (j *Journal) refill(s *salvage, kept *sifted, r *Recovery) error {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	batch := j.db.NewBatch()
	for _, key := range kept.keys {
		if kind := key[:2]; r.Missing.ListingsCut && (kind == headerPrefix || kind == rowPrefix) {
			continue
		}
		if err := batch.Set([]byte(key), s.records[key].value, nil); err != nil {
			return err
		}
		if batch.Len() < refillBytes {
			continue
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			return err
		}
		batch = j.db.NewBatch()
	}
	for id, seq := range kept.newest {
		key := entryKey(sentPrefix, id)
		if err := batch.Set(key, seal(key, appendSeq(nil, seq)), nil); err != nil {
			return err
		}
	}
	kept.totals.batches = max(s.newest.batches, j.totals.batches)
	kept.totals.seq = r.NextSeq - 1
	j.totals = kept.totals
	if err := j.apply(batch, pebble.Sync); err != nil {
		return err
	}
	return j.wait(batch)
}

// swap puts made in the place of dir. Whatever cuts it off, one of the two is there, or
// [Open] refuses and [Recover] begins again.
func swap(fsys vfs.FS, dir, made string) error {
	parent := fsys.PathDir(dir)
	if err := fsys.Rename(dir, replacedName(dir)); err != nil {
		return err
	}
	if err := syncDir(fsys, parent); err != nil {
		return err
	}
	if err := fsys.Rename(made, dir); err != nil {
		return err
	}
	if err := syncDir(fsys, parent); err != nil {
		return err
	}
	return fsys.RemoveAll(replacedName(dir))
}
