package recovery

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// logBlock is the size of a log's blocks. No record's piece goes across them, so that
// reading can begin anew at any.
const logBlock = 32 << 10

// salvage holds the records of a damaged store. It reads them past Pebble, from the tables
// and logs one by one, whatever the manifest says of them.
type salvage struct {
	records *sorter
	newest  record.Totals // the newest state record seen
	stated  bool          // there was one
	unread  []string
	failure error // the sorter's: no damage of the store
}

// readStore reads all tables and logs as far as they can be read.
func (t *task) readStore() (*salvage, error) {
	fsys, dir := t.opts.FS, t.opts.Dir
	s := &salvage{records: &sorter{fs: fsys, dir: sortingName(dir), limit: sortBytes}}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".log")
	})
	slices.Sort(names)
	t.progress.OfFiles = len(names)
	for _, name := range names {
		path := fsys.PathJoin(dir, name)
		if strings.HasSuffix(name, ".sst") {
			err = s.readTable(fsys, path)
		} else {
			err = s.readLog(fsys, path, name)
		}
		if s.failure != nil {
			return nil, s.failure
		}
		if err != nil {
			s.unread = append(s.unread, fmt.Sprintf("%s: %v", name, store.OneLine(err)))
		}
		t.progress.Files++
		t.reportProgress()
	}
	return s, nil
}

func (s *salvage) take(key, value []byte, order uint64, deleted bool) error {
	if !bytes.Equal(key, record.StateKey) {
		s.failure = s.records.add(key, value, order, deleted)
		return s.failure
	}
	// A state record that does not check is ignored.
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

// readTable reads a table. If a block is damaged, readTable reads from the other end too,
// so that the block hides no records but its own.
func (s *salvage) readTable(fsys vfs.FS, path string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
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
	for len(text) > 0 {
		end, _ := store.ReadLog(bytes.NewReader(text), number, s.takeBatch)
		next := min((end+logBlock)&^(logBlock-1), int64(len(text)))
		s.readChunks(text[end:next], number)
		text = text[next:]
	}
	return s.failure
}

// readChunks takes the batches that are whole in the rest of a damaged block.
func (s *salvage) readChunks(rest []byte, number uint64) {
	for len(rest) >= chunkHeader {
		batch, size := readChunk(rest, uint32(number))
		if size == 0 {
			size = 1
		} else {
			_ = s.takeBatch(batch) // as far as it parses
		}
		rest = rest[size:]
	}
}

const (
	chunkHeader  = 11 // checksum, length, kind, number of the log
	syncedHeader = chunkHeader + 8
	wholeChunk   = 5 // the kind of a chunk that holds all of a batch
	wholeSynced  = 9 // likewise, with the offset up to which the log was synced
)

// readChunk is the batch of the chunk that text begins with, and the chunk's size: 0 if
// there is none that checks.
func readChunk(text []byte, number uint32) (batch []byte, size int) {
	if binary.LittleEndian.Uint32(text[7:]) != number {
		return nil, 0
	}
	header := chunkHeader
	switch text[6] {
	case wholeChunk:
	case wholeSynced:
		header = syncedHeader
	default:
		return nil, 0
	}
	size = header + int(binary.LittleEndian.Uint16(text[4:]))
	if size > len(text) {
		return nil, 0
	}
	sum := crc32.Checksum(text[6:size], record.Castagnoli)
	if masked := (sum>>15 | sum<<17) + 0xa282ead8; masked != binary.LittleEndian.Uint32(text) {
		return nil, 0
	}
	return text[header:size], size
}

func (s *salvage) takeBatch(repr []byte) error {
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
			if err := s.take(key, value, order, removes(kind)); err != nil {
				return err
			}
		}
		order++
	}
}
