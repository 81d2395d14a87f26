package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// logBlock is the size of a log's blocks. No record's piece goes across them, so that
// reading can begin anew at any.
const logBlock = 32 << 10

// salvagedRecord is what a key was last seen to hold.
type salvagedRecord struct {
	order   uint64 // Pebble's own sequence number: the highest is the last
	value   []byte
	deleted bool
}

// salvagedRange is a range of keys that was removed at once.
type salvagedRange struct {
	order    uint64
	from, to []byte
}

// salvage is what can be read of a damaged store, read past Pebble: its tables and its
// logs, one by one, whatever the manifest says of them.
type salvage struct {
	records map[string]salvagedRecord
	ranges  []salvagedRange
	newest  record.Totals // the newest state record seen
	stated  bool          // there was one
	unread  []string
}

// readStore reads all tables and logs as far as they can be read.
func readStore(fsys vfs.FS, dir string) (*salvage, error) {
	s := &salvage{records: make(map[string]salvagedRecord)}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		var err error
		switch {
		case strings.HasSuffix(name, ".sst"):
			err = s.readTable(fsys, fsys.PathJoin(dir, name))
		case strings.HasSuffix(name, ".log"):
			err = s.readLog(fsys, fsys.PathJoin(dir, name), name)
		}
		if err != nil {
			s.unread = append(s.unread, fmt.Sprintf("%s: %v", name, store.OneLine(err)))
		}
	}
	s.removeRanges()
	return s, nil
}

// removeRanges removes what a range took that was removed after it.
func (s *salvage) removeRanges() {
	for _, r := range s.ranges {
		maps.DeleteFunc(s.records, func(key string, record salvagedRecord) bool {
			return record.order < r.order && key >= string(r.from) && key < string(r.to)
		})
	}
}

func (s *salvage) takeRange(from, to []byte, order uint64) {
	s.ranges = append(s.ranges, salvagedRange{order, bytes.Clone(from), bytes.Clone(to)})
}

// take keeps a record if it is newer than the one that is known.
func (s *salvage) take(key, value []byte, order uint64, deleted bool) {
	if bytes.Equal(key, record.StateKey) && !deleted {
		s.state(value)
	}
	if old, ok := s.records[string(key)]; ok && old.order > order {
		return
	}
	s.records[string(key)] = salvagedRecord{order, bytes.Clone(value), deleted}
}

func (s *salvage) state(value []byte) {
	body, err := record.Unseal(record.StateKey, value)
	if err != nil {
		return
	}
	t, err := record.DecodeTotals(body)
	if err != nil {
		return
	}
	if !s.stated || t.Batches > s.newest.Batches || t.Batches == s.newest.Batches && t.Seq >= s.newest.Seq {
		s.newest, s.stated = t, true
	}
}

// readTable reads a table from both ends, so that one damaged block hides no more than
// itself.
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
	return errors.Join(s.walk(r, false), s.walk(r, true), s.readRanges(r))
}

func (s *salvage) readRanges(r *sstable.Reader) error {
	it, err := r.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || it == nil {
		return err
	}
	defer it.Close()
	span, err := it.First()
	for ; span != nil; span, err = it.Next() {
		s.takeRange(span.Start, span.End, uint64(span.LargestSeqNum()))
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
		s.take(kv.K.UserKey, value, uint64(kv.SeqNum()), removes(kv.Kind()))
	}
	return errors.Join(it.Error(), it.Close())
}

func removes[K ~uint8](kind K) bool {
	return kind == K(sstable.InternalKeyKindDelete) || kind == K(sstable.InternalKeyKindSingleDelete) ||
		kind == K(sstable.InternalKeyKindDeleteSized)
}

// readLog reads a log, and after what cannot be read goes on with the next block. The
// end of a log looks like damage too and is not reported: what is missing is known by
// the state record and the mark.
func (s *salvage) readLog(fsys vfs.FS, path, name string) error {
	var number uint64
	if _, err := fmt.Sscanf(name, "%d.log", &number); err != nil {
		return err
	}
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for at := 0; at < len(text); at += logBlock {
		_, _ = store.ReadLog(bytes.NewReader(text[at:]), number, s.takeBatch)
	}
	return nil
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
		case sstable.InternalKeyKindRangeDelete:
			s.takeRange(key, value, order)
		default:
			s.take(key, value, order, removes(kind))
		}
		order++
	}
}

// addView adds what Pebble shows of the store, if it can open it: all of it when that
// is what the newest state record says, and else what reading past Pebble has missed.
func (s *salvage) addView(opts store.Options) {
	view := make(map[string]salvagedRecord)
	db, err := store.OpenPebble(opts, true)
	if err != nil {
		return
	}
	var whole error
	for _, prefix := range []string{record.PendingPrefix, record.SentPrefix, record.SettledPrefix, record.HeaderPrefix, record.RowPrefix, record.DeadPrefix} {
		whole = errors.Join(whole, viewOf(db, []byte(prefix), view))
	}
	if t, err := store.ReadTotals(db); err == nil {
		s.state(record.EncodeTotals(&t))
	}
	whole = errors.Join(whole, db.Close())
	if whole == nil && s.fits(view) {
		s.records = view
		return
	}
	for key, r := range view {
		if _, ok := s.records[key]; !ok {
			s.records[key] = r
		}
	}
}

func viewOf(r pebble.Reader, prefix []byte, view map[string]salvagedRecord) error {
	return store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		view[string(key)] = salvagedRecord{value: bytes.Clone(value)}
		return nil
	})
}

// fits reports whether records are what the newest state record says.
func (s *salvage) fits(records map[string]salvagedRecord) bool {
	kept := sift(records)
	return s.stated && s.newest.Compare(kept.totals) == nil
}

// sifted is what checks of the records that were read.
type sifted struct {
	totals  record.Totals
	keys    []string // in order
	counts  Salvaged
	damaged []string
	newest  map[record.ID]uint64 // pending write
}

// sift takes the records that check. Every kind is decoded, so that what is kept is
// what the journal can read.
func sift(records map[string]salvagedRecord) *sifted {
	s := &sifted{newest: make(map[record.ID]uint64)}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		r := records[key]
		if r.deleted || key == string(record.StateKey) {
			continue
		}
		body, err := record.Unseal([]byte(key), r.value)
		if err == nil {
			err = s.add([]byte(key), body, r.value)
		}
		if err != nil {
			s.damaged = append(s.damaged, nameOf(key))
			continue
		}
		s.keys = append(s.keys, key)
	}
	return s
}

func (s *sifted) add(key, body, value []byte) error {
	switch string(key[:min(2, len(key))]) {
	case record.PendingPrefix:
		id, v, err := record.ReadPending(key, body, record.Sum(value))
		if err != nil {
			return err
		}
		s.totals.Add(id, &v)
		s.totals.Seq = max(s.totals.Seq, v.Seq)
		s.newest[id] = max(s.newest[id], v.Seq)
		s.counts.Pending++
	case record.DeadPrefix:
		seq, err := record.ParseDeadKey(key)
		if err != nil {
			return err
		}
		l, err := record.DecodeDead(seq, body)
		if err != nil {
			return err
		}
		s.totals.AddDead(&l)
		s.totals.Seq = max(s.totals.Seq, seq)
		s.counts.DeadLetters++
	default:
		return s.addCopy(key, body)
	}
	return nil
}

func (s *sifted) addCopy(key, body []byte) (err error) {
	switch string(key[:min(2, len(key))]) {
	case record.SettledPrefix:
		if _, _, err = record.DecodeSettled(body); err == nil {
			s.counts.Settled++
		}
	case record.SentPrefix:
		s.counts.SentMarks++
	case record.HeaderPrefix:
		if _, err = record.DecodeHeader(body); err == nil {
			s.counts.Listings++
		}
	case record.RowPrefix:
		_, err = record.DecodeRow("", body)
	default:
		err = record.ErrCorrupt
	}
	return err
}

// nameOf says for a person what a record was.
func nameOf(key string) string {
	kinds := map[string]string{
		record.PendingPrefix: "pending write", record.SentPrefix: "sent mark of", record.SettledPrefix: "settled copy of",
		record.HeaderPrefix: "listing of", record.RowPrefix: "listing row of", record.DeadPrefix: "dead letter",
	}
	kind, ok := kinds[key[:min(2, len(key))]]
	if !ok {
		return fmt.Sprintf("record %q", key)
	}
	if id, seq, err := record.ParsePendingKey([]byte(key)); err == nil && kind == kinds[record.PendingPrefix] {
		return fmt.Sprintf("pending write %d to %s", seq, id)
	}
	if seq, err := record.ParseDeadKey([]byte(key)); err == nil && kind == kinds[record.DeadPrefix] {
		return fmt.Sprintf("dead letter %d", seq)
	}
	return fmt.Sprintf("%s %s", kind, key[2:])
}
