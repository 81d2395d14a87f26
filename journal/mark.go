package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// markFile is the high-water mark: what was durable at some moment, kept where no
	// damage to the store can take it back with the store.
	markFile = "MARK"
	// slotAt is the distance between the file's two slots. They take turns and lie in
	// different pages, so that a torn write leaves one of them.
	slotAt = 4096
	// slotSize is a slot's length: six numbers, a checksum and the slot's own.
	slotSize = 5*8 + 2*4
	// markEvery bounds how old the mark may be, and so which writes a log that was cut
	// off after an unclean end can lose without notice.
	markEvery = time.Second
)

// mark is what was durable when it was made.
type mark struct {
	round    uint64 // how many marks came before, which tells the newer slot
	seq      uint64 // highest sequence number
	batches  uint64 // of the state record
	manifest uint64 // number of the store's manifest
	length   uint64 // of the manifest
	sum      uint32 // CRC-32C of that much of it
}

func (m *mark) encode() []byte {
	b := make([]byte, 0, slotSize)
	for _, n := range []uint64{m.round, m.seq, m.batches, m.manifest, m.length} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, m.sum)
	return seal([]byte(markFile), b)
}

func decodeMark(slot []byte) (m mark, ok bool) {
	body, err := unseal([]byte(markFile), slot)
	if err != nil || len(slot) != slotSize {
		return mark{}, false
	}
	d := decoder{rest: body}
	for _, n := range []*uint64{&m.round, &m.seq, &m.batches, &m.manifest, &m.length} {
		*n = d.uint64()
	}
	m.sum = binary.LittleEndian.Uint32(d.rest)
	return m, true
}

// readMark returns the newer of the slots that check.
func readMark(fsys vfs.FS, dir string) (mark, error) {
	f, err := fsys.Open(fsys.PathJoin(dir, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, fmt.Errorf("%w: the file %s is missing", ErrCorrupt, markFile)
	}
	if err != nil {
		return mark{}, err
	}
	var newest mark
	found := false
	for i := range 2 {
		slot := make([]byte, slotSize)
		n, err := f.ReadAt(slot, int64(i*slotAt))
		if err != nil && !errors.Is(err, io.EOF) {
			return mark{}, errors.Join(err, f.Close())
		}
		if m, ok := decodeMark(slot[:n]); ok && (!found || m.round > newest.round) {
			newest, found = m, true
		}
	}
	if err := f.Close(); err != nil {
		return mark{}, err
	}
	if !found {
		return mark{}, fmt.Errorf("%w: the file %s does not check", ErrCorrupt, markFile)
	}
	return newest, nil
}

// reached is [ErrCorrupt] for a store that is behind the mark.
func (m *mark) reached(t totals) error {
	switch {
	case t.seq < m.seq:
		return fmt.Errorf("%w: at least %d acknowledged writes are missing: it ends with write %d, and write %d was durable",
			ErrCorrupt, m.seq-t.seq, t.seq, m.seq)
	case t.batches < m.batches:
		return fmt.Errorf("%w: at least the last %d changes are missing, though no new write is among them",
			ErrCorrupt, m.batches-t.batches)
	}
	return nil
}

// manifestPath is where Pebble's manifest of a number is.
func manifestPath(fsys vfs.FS, dir string, number uint64) string {
	return fsys.PathJoin(dir, fmt.Sprintf("MANIFEST-%06d", number))
}

// manifestInForce is the number of the manifest that Pebble's marker names, 0 if there
// is none.
func manifestInForce(fsys vfs.FS, dir string) (number uint64, _ error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	var newest uint64
	for _, name := range names {
		var turn, n uint64
		if k, _ := fmt.Sscanf(name, "marker.manifest.%d.MANIFEST-%d", &turn, &n); k == 2 && turn >= newest {
			newest, number = turn, n
		}
	}
	return number, nil
}

// sumManifest is the length and the checksum of a manifest, or of no more than the
// first limit bytes.
func sumManifest(f io.Reader, limit uint64) (length uint64, sum uint32, err error) {
	h := crc32.New(castagnoli)
	n, err := io.Copy(h, io.LimitReader(f, int64(limit)))
	return uint64(n), h.Sum32(), err
}

// checkManifest is [ErrCorrupt] when the manifest lacks, or has otherwise, what the
// mark knows of it: Pebble takes a damaged manifest for one that ends there, and then
// removes the tables that it does not know. It is not asked of a manifest that came
// after the mark.
func (m *mark) checkManifest(fsys vfs.FS, dir string) error {
	number, err := manifestInForce(fsys, dir)
	if err != nil || number > m.manifest {
		return err
	}
	damaged := fmt.Errorf("%w: the manifest is not the one that was written", ErrCorrupt)
	if number < m.manifest {
		return damaged
	}
	f, err := fsys.Open(manifestPath(fsys, dir, number))
	if errors.Is(err, fs.ErrNotExist) {
		return damaged
	}
	if err != nil {
		return err
	}
	length, sum, err := sumManifest(f, m.length)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if length != m.length || sum != m.sum {
		return damaged
	}
	return nil
}

// keeper writes the mark.
type keeper struct {
	mu    sync.Mutex // one mark at a time
	last  mark
	timer *time.Timer // guarded by commitMu; nil while nothing is to be marked
	// running is closed when the mark that is being written is; ended says that there
	// are to be no more. Both are guarded by commitMu.
	running chan struct{}
	ended   bool
}

// markSoon has what was just applied marked within markEvery. The caller holds
// commitMu.
func (j *Journal) markSoon() {
	if j.keeper.timer == nil && !j.keeper.ended {
		j.keeper.timer = time.AfterFunc(markEvery, j.markNow)
	}
}

// markNow makes all that was applied so far durable, which costs the writers nothing,
// and then marks it.
func (j *Journal) markNow() {
	if j.enter() != nil {
		return
	}
	defer j.leave()
	j.commitMu.Lock()
	if j.keeper.ended {
		j.commitMu.Unlock()
		return
	}
	j.keeper.timer = nil
	done := make(chan struct{})
	j.keeper.running = done
	now := j.totals
	t := j.join()
	j.commitMu.Unlock()
	defer close(done)
	if j.await(t) != nil {
		return // it was the end of the journal
	}
	err := j.keepMark(now)
	switch {
	case err == nil:
	case isDiskFull(err):
		j.opts.Logger.Error("the high-water mark could not be written", "error", oneLine{err})
		j.commitMu.Lock()
		defer j.commitMu.Unlock()
		j.markSoon()
	default:
		j.fail(err)
	}
}

// endMarks waits for the mark that is being written, and has no more written by the
// timer.
func (j *Journal) endMarks() {
	j.commitMu.Lock()
	j.keeper.ended = true
	if j.keeper.timer != nil {
		j.keeper.timer.Stop()
	}
	running := j.keeper.running
	j.commitMu.Unlock()
	if running != nil {
		<-running
	}
}

// keepMark marks a state of the store that is durable. The mark never goes back.
func (j *Journal) keepMark(t totals) error {
	k := &j.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	next := mark{round: k.last.round + 1, seq: max(t.seq, k.last.seq), batches: max(t.batches, k.last.batches)}
	var err error
	if next.manifest, next.length, next.sum, err = durableManifest(j.opts.FS, j.opts.Dir, k.last); err != nil {
		return err
	}
	same := next
	if same.round = k.last.round; same == k.last {
		return nil
	}
	if err := writeMark(j.opts.FS, j.opts.Dir, next); err != nil {
		return fmt.Errorf("file %s: %w", markFile, err)
	}
	k.last = next
	return nil
}

// durableManifest is what a mark says of the manifest. It is synced first if it has
// grown since the last mark: Pebble may be about to.
func durableManifest(fsys vfs.FS, dir string, last mark) (number, length uint64, sum uint32, err error) {
	if number, err = manifestInForce(fsys, dir); err != nil {
		return 0, 0, 0, err
	}
	f, err := fsys.Open(manifestPath(fsys, dir, number))
	if err != nil {
		return 0, 0, 0, err
	}
	info, err := f.Stat()
	if err == nil && number == last.manifest && uint64(info.Size()) == last.length {
		return number, last.length, last.sum, f.Close()
	}
	if err == nil {
		length, sum, err = sumManifest(f, uint64(info.Size()))
	}
	if err == nil {
		err = f.Sync()
	}
	return number, length, sum, errors.Join(err, f.Close())
}

// writeMark writes a mark, durably, over the older slot.
func writeMark(fsys vfs.FS, dir string, m mark) error {
	f, err := fsys.OpenReadWrite(fsys.PathJoin(dir, markFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(m.encode(), int64(m.round%2)*slotAt)
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

// createMark makes the file of a mark anew, durably, with the mark in both slots.
func createMark(fsys vfs.FS, dir string, m mark) error {
	f, err := fsys.Create(fsys.PathJoin(dir, markFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	text := strings.Repeat("\x00", slotAt-slotSize)
	_, err = f.Write(append(append(m.encode(), text...), m.encode()...))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syncDir(fsys, dir)
}
