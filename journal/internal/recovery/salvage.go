package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// salvage reads the records of a damaged store directly from the tables and logs, without Pebble. It
// does not trust the manifest.
type salvage struct {
	records *sorter       // nil before read
	newest  record.Totals // the newest state record found
	stated  bool          // a state record was found
	unread  []string
	failure error // an error of the sorter, not damage of the store
}

// close gives up the records.
func (s *salvage) close() error {
	if s.records == nil {
		return nil
	}
	return s.records.close()
}

// read reads all tables and logs as far as possible. It calls progress after each.
func (s *salvage) read(fsys vfs.FS, dir string, progress func(read, of int)) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	if s.records, err = newSorter(fsys, sortingName(dir)); err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".log")
	})
	slices.Sort(names)
	for i, name := range names {
		path := fsys.PathJoin(dir, name)
		if strings.HasSuffix(name, ".sst") {
			err = s.readTable(fsys, path)
		} else {
			err = s.readLog(fsys, path, name)
		}
		if s.failure != nil {
			return s.failure
		}
		if err != nil {
			s.unread = append(s.unread, fmt.Sprintf("%s: %v", name, store.OneLine(err)))
		}
		progress(i+1, len(names))
	}
	return nil
}

func (s *salvage) take(key, value []byte, order uint64, deleted bool) error {
	if !bytes.Equal(key, record.StateKey) {
		s.failure = s.records.add(key, value, order, deleted)
		return s.failure
	}
	// A state record that fails its checks is ignored.
	if body, err := record.Unseal(key, value); err == nil && !deleted {
		if t, err := record.DecodeTotals(body); err == nil {
			s.state(&t)
		}
	}
	return nil
}

// state keeps a state record if it is the newest so far.
func (s *salvage) state(t *record.Totals) {
	if !s.stated || t.Batches > s.newest.Batches || t.Batches == s.newest.Batches && t.Seq >= s.newest.Seq {
		s.newest, s.stated = *t, true
	}
}

// readTable reads a table. If a block is damaged, readTable also reads from the other end, so that it
// loses only the records from the first to the last damaged block.
func (s *salvage) readTable(fsys vfs.FS, path string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	file, err := store.OpenTable(fsys, path)
	if err != nil {
		return err
	}
	r, err := sstable.NewReader(context.Background(), file, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	err = s.walk(r, false)
	if err != nil {
		err = errors.Join(err, s.walk(r, true))
	}
	return err
}

func (s *salvage) walk(r *sstable.Reader, backwards bool) error {
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	kv, step := it.First(), it.Next
	if backwards {
		kv, step = it.Last(), it.Prev
	}
	for ; kv != nil; kv = step() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if err := s.take(kv.K.UserKey, value, uint64(kv.SeqNum()), removes(kv.Kind())); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func removes[K ~uint8](kind K) bool {
	return kind == K(sstable.InternalKeyKindDelete) || kind == K(sstable.InternalKeyKindSingleDelete) ||
		kind == K(sstable.InternalKeyKindDeleteSized)
}

// readLog reads a log, and continues after damage. The end of a log looks like damage too, so readLog
// does not report damage: the state record and the mark show what is missing.
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

// damagedLog is a log that Pebble cannot read to its end. A batch is in one chunk, or in several
// consecutive ones.
type damagedLog struct {
	*salvage
	text   []byte
	number uint64

	batch []byte // the chunks read so far of a batch; nil between batches
	whole bool   // all the batch's chunks so far pass their checks
}

// read reads the chunks, starting at a position. Where an expected chunk is missing, it searches for
// the next chunk with a matching checksum.
func (l *damagedLog) read(at int) {
	expected := true // a chunk begins here, if the previous one's length is right
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

// chunkAt reports whether a chunk may begin at a position.
func (l *damagedLog) chunkAt(at, blockEnd int) bool {
	if blockEnd-at < store.ChunkHeader {
		return true
	}
	_, ok := store.ParseChunk(l.text[at:blockEnd], l.number)
	return ok
}

func (l *damagedLog) take(c store.Chunk) {
	if c.First {
		l.end()
		l.batch, l.whole = []byte{}, true
	}
	if l.batch == nil {
		return // the batch's beginning is lost
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

// end ends a batch that is cut or fails its checksum. It keeps what is owed, and the versions with their losses: each
// record has its own checksum. It ignores the batch's deletes and copies (older versions may exist
// elsewhere). The batch's position in the order may be damaged, so end passes 0 for it: every delete of
// such a record comes later.
func (l *damagedLog) end() {
	batch := l.batch
	l.batch = nil
	if len(batch) == 0 { // guard 4.13
		return
	}
	defer func() { _ = recover() }() // Pebble's reader panics where a batch is cut; the records before it count
	_ = visitBatch(batch, func(key, value []byte, _ uint64, deleted bool) error {
		if kind := record.KindOf(key); deleted || kind == nil || kind.Class != record.Owed && kind.Keyed != record.ByVersion {
			return nil
		}
		if _, err := record.Unseal(key, value); err != nil {
			return nil //nolint:nilerr // what is missing is told by the state record
		}
		return l.salvage.take(key, value, 0, false)
	})
}

func (s *salvage) takeBatch(repr []byte) error { return visitBatch(repr, s.take) }

// visitBatch visits the records of a batch, each with its position in the order of all records.
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
		case sstable.InternalKeyKindRangeDelete: // only copies and old versions are deleted by range
		default:
			if err := visit(key, value, order, removes(kind)); err != nil {
				return err
			}
		}
		order++
	}
}
