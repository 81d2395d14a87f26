package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// readLog reads a log, and after damage goes on behind it. The end of a log looks like
// damage too and is not reported: the state record and the mark tell what is missing.
func (s *salvage) readLog(fsys vfs.FS, path, name string) error {
	var number uint64
	if _, err := fmt.Sscanf(name, "%d.log", &number); err != nil {
		return err
	}
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f) // no longer than what Pebble keeps in memory
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	end, _ := store.ReadLog(bytes.NewReader(text), number, s.takeBatch)
	damaged := &damagedLog{salvage: s, text: text, number: number}
	damaged.read(int(end)) // guard 4.11
	return s.failure
}

// damagedLog is a log that Pebble cannot read to its end. A batch is in one chunk, or in
// several that follow each other.
type damagedLog struct {
	*salvage
	text   []byte
	number uint64

	batch []byte // what was read of a batch of several chunks; nil between batches
	whole bool   // all of its chunks so far check
}

// read reads the chunks from a position on. Where a chunk should begin and none does, read looks
// for the next chunk whose checksum holds.
func (l *damagedLog) read(at int) {
	expected := true // a chunk begins here, if the last one's length is right
	for at < len(l.text) {
		blockEnd := min((at/store.LogBlock+1)*store.LogBlock, len(l.text))
		if blockEnd-at < store.ChunkHeader {
			at, expected = blockEnd, true
			continue
		}
		c, ok := store.ParseChunk(l.text[at:blockEnd], l.number)
		if ok && (c.Checks || expected) {
			l.take(c)
			expected = c.Checks || l.chunkAt(at+c.Size, blockEnd)
			if expected {
				at += c.Size
				continue
			}
		}
		l.end()
		at++
		expected = at == blockEnd
	}
	l.end()
}

// chunkAt reports whether a chunk may begin at a place.
func (l *damagedLog) chunkAt(at, blockEnd int) bool {
	if blockEnd-at < store.ChunkHeader {
		return true
	}
	_, ok := store.ParseChunk(l.text[at:blockEnd], l.number)
	return ok
}

// take takes a chunk's part of a batch.
func (l *damagedLog) take(c store.Chunk) {
	if c.First {
		l.end()
		l.batch, l.whole = []byte{}, true
	}
	if l.batch == nil {
		return // its beginning is lost
	}
	l.batch = append(l.batch, c.Payload...) // guard 4.12
	l.whole = l.whole && c.Checks
	if c.Last && l.whole {
		_ = l.takeBatch(l.batch) // as far as it parses
		l.batch = nil
	} else if c.Last {
		l.end()
	}
}

// end takes pending writes and dead letters, each of which has a checksum of its own, from a batch
// whose checksum does not hold. It ignores the batch's deletes, its copies (there may be older
// versions elsewhere), and its place in the order, which may be damaged: such a record is written
// only once, so a delete of it is always the later of the two.
func (l *damagedLog) end() {
	batch := l.batch
	l.batch = nil
	if len(batch) == 0 { // guard 4.13
		return
	}
	defer func() { _ = recover() }() // Pebble's reader panics where a batch is cut; the records before count
	_ = visitBatch(batch, func(key, value []byte, _ uint64, deleted bool) error {
		kind := string(key[:min(2, len(key))])
		if deleted || kind != record.PendingPrefix && kind != record.DeadPrefix {
			return nil
		}
		if _, err := record.Unseal(key, value); err != nil {
			return nil //nolint:nilerr // what is missing is told by the state record
		}
		return l.salvage.take(key, value, 0, false)
	})
}

func (s *salvage) takeBatch(repr []byte) error { return visitBatch(repr, s.take) }

// visitBatch visits the records of a batch, each with its place in the order of all records.
func visitBatch(repr []byte, visit func(key, value []byte, order uint64, deleted bool) error) error {
	header, ok := batchrepr.ReadHeader(repr)
	if !ok {
		return nil
	}
	order := uint64(header.SeqNum)
	r := batchrepr.Read(repr)
	for {
		kind, key, value, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		switch kind {
		case sstable.InternalKeyKindLogData:
			continue
		case sstable.InternalKeyKindRangeDelete: // of copies only
		default:
			if err := visit(key, value, order, removes(kind)); err != nil {
				return err
			}
		}
		order++
	}
}
