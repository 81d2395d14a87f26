package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

const (
	// MarkFile holds the high-water mark, which says what was durable at some moment. It is not one of
	// Pebble's files, so damage to those does not set the mark back.
	MarkFile = "MARK"
	// slotAt is the distance between the file's two slots. They take turns and are in different pages,
	// so that a torn write leaves one of them intact.
	slotAt = 4096
	// slotSize is a slot's length: five numbers, the manifest's checksum and the slot's own.
	slotSize = 5*8 + 2*4
)

// Mark says what was durable when it was made.
type Mark struct {
	Round   uint64 // number of earlier marks; the slot with the higher number is newer
	Seq     uint64 // highest sequence number
	Batches uint64 // the state record's Batches
	manifestMark
}

func (m *Mark) encode() []byte {
	b := make([]byte, 0, slotSize)
	for _, n := range []uint64{m.Round, m.Seq, m.Batches, m.number, m.length} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, m.sum)
	return record.Seal([]byte(MarkFile), b)
}

func decodeMark(slot []byte) (m Mark, ok bool) {
	body, err := record.Unseal([]byte(MarkFile), slot)
	if err != nil || len(slot) != slotSize {
		return Mark{}, false
	}
	for i, n := range []*uint64{&m.Round, &m.Seq, &m.Batches, &m.number, &m.length} {
		*n = binary.LittleEndian.Uint64(body[8*i:])
	}
	m.sum = binary.LittleEndian.Uint32(body[5*8:])
	return m, true
}

// ReadMark returns the newer intact slot.
func ReadMark(fsys vfs.FS, dir string) (Mark, error) {
	f, err := fsys.Open(fsys.PathJoin(dir, MarkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Mark{}, fmt.Errorf("%w: the file %s is missing", record.ErrCorrupt, MarkFile)
	}
	if err != nil {
		return Mark{}, err
	}
	var newest Mark
	found := false
	for i := range 2 {
		slot := make([]byte, slotSize)
		n, err := f.ReadAt(slot, int64(i*slotAt))
		if err != nil && !errors.Is(err, io.EOF) {
			return Mark{}, errors.Join(err, f.Close())
		}
		if m, ok := decodeMark(slot[:n]); ok && (!found || m.Round > newest.Round) {
			newest, found = m, true
		}
	}
	if err := f.Close(); err != nil {
		return Mark{}, err
	}
	if !found {
		return Mark{}, fmt.Errorf("%w: the file %s does not check", record.ErrCorrupt, MarkFile)
	}
	return newest, nil
}

// Reached returns [record.ErrCorrupt] if the store is behind the mark. Every write is in a batch, so
// the number of batches also shows missing writes.
func (m *Mark) Reached(t record.Totals) error {
	switch {
	case t.Batches >= m.Batches && t.Seq >= m.Seq: // guard 4.4
		return nil
	case t.Seq < m.Seq:
		return fmt.Errorf("%w: it can be read up to write %d, and write %d was acknowledged", record.ErrCorrupt, t.Seq, m.Seq)
	}
	return fmt.Errorf("%w: changes are missing, though no write: it can be read up to change %d, and change %d was made",
		record.ErrCorrupt, t.Batches, m.Batches)
}

// writeMark writes a mark, durably, over the older slot.
func writeMark(fsys vfs.FS, dir string, m *Mark) error {
	f, err := fsys.OpenReadWrite(fsys.PathJoin(dir, MarkFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(m.encode(), int64(m.Round%2)*slotAt)
	if err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

// createMark creates the file of a mark, durably, with the mark in both slots.
func createMark(fsys vfs.FS, dir string, m *Mark) error {
	padding := make([]byte, slotAt-slotSize)
	return diskfs.WriteFile(fsys, fsys.PathJoin(dir, MarkFile), slices.Concat(m.encode(), padding, m.encode()))
}
