package recovery

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
)

const (
	// sortBytes bounds the bytes of records held in memory.
	sortBytes = 16 << 20
	// heldOverhead is the memory that a record takes on top of its key and value.
	heldOverhead = 128
	// runsAtMost bounds how many files are read at the same time.
	runsAtMost = 32
	// runBuffer is the buffer size for each sorted file during a merge.
	runBuffer = 64 << 10
)

// version is one version of a record, as found in a file.
type version struct {
	key     []byte
	order   uint64 // Pebble's own sequence number: the highest is the newest
	deleted bool
	value   []byte
}

// sorter sorts the newest version of each key by key. It holds few records in memory; the rest is in
// runs, which are sorted files in a separate directory.
type sorter struct {
	fs    vfs.FS
	dir   string
	limit int // bound of the records in memory, in bytes
	held  map[string]version
	bytes int
	runs  []string // the oldest first
	made  int
}

// add adds a version. Of two with the same order, the later one counts.
func (s *sorter) add(key, value []byte, order uint64, deleted bool) error {
	old, ok := s.held[string(key)]
	if ok && old.order > order {
		return nil
	}
	if s.held == nil {
		s.held = make(map[string]version)
	}
	s.bytes += len(value) - len(old.value)
	if !ok {
		s.bytes += len(key) + heldOverhead
	}
	s.held[string(key)] = version{order: order, deleted: deleted, value: bytes.Clone(value)}
	if s.bytes < s.limit {
		return nil
	}
	return s.spill()
}

// spill writes the records in memory to a run.
func (s *sorter) spill() error {
	if len(s.held) == 0 {
		return nil
	}
	err := s.write(func(put func(*version) error) error {
		for _, key := range slices.Sorted(maps.Keys(s.held)) {
			v := s.held[key]
			v.key = []byte(key)
			if err := put(&v); err != nil {
				return err
			}
		}
		return nil
	})
	s.held, s.bytes = nil, 0
	if err != nil || len(s.runs) < runsAtMost {
		return err
	}
	return s.merge()
}

// merge merges all runs into one.
func (s *sorter) merge() error {
	runs := s.runs
	if err := s.write(func(put func(*version) error) error { return s.visit(runs, put) }); err != nil {
		return err
	}
	s.runs = s.runs[len(runs):]
	for _, name := range runs {
		if err := s.fs.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// write adds a run with the records that fill writes, in key order.
func (s *sorter) write(fill func(put func(*version) error) error) error {
	if err := s.fs.MkdirAll(s.dir, diskfs.DirMode); err != nil {
		return err
	}
	s.made++
	name := s.fs.PathJoin(s.dir, fmt.Sprintf("%06d.run", s.made))
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, runBuffer)
	err = fill(func(v *version) error {
		_, err := w.Write(v.encode())
		return err
	})
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("sorting what was found: %w", err)
	}
	s.runs = append(s.runs, name)
	return nil
}

func (v *version) encode() []byte {
	b := make([]byte, 0, len(v.key)+len(v.value)+3*binary.MaxVarintLen64+1)
	b = append(binary.AppendUvarint(b, uint64(len(v.key))), v.key...)
	b = binary.AppendUvarint(b, v.order)
	if v.deleted {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(v.value))), v.value...)
}

// each calls visit for the newest version of each key, in key order. The version is valid only during
// the call.
func (s *sorter) each(visit func(*version) error) error {
	if err := s.spill(); err != nil {
		return err
	}
	return s.visit(s.runs, visit)
}

func (s *sorter) visit(names []string, visit func(*version) error) (err error) {
	var h runHeap
	defer func() {
		for _, r := range h {
			err = errors.Join(err, r.file.Close())
		}
	}()
	for i, name := range names {
		f, err := s.fs.Open(name)
		if err != nil {
			return err
		}
		r := &run{file: f, from: bufio.NewReaderSize(f, runBuffer), turn: i}
		h = append(h, r)
		if err := r.next(); err != nil {
			return err
		}
	}
	heap.Init(&h)
	var last []byte
	first := true
	for len(h) > 0 && !h[0].ended {
		r := h[0]
		if first || !bytes.Equal(r.now.key, last) {
			if err := visit(&r.now); err != nil {
				return err
			}
			last, first = append(last[:0], r.now.key...), false
		}
		if err := r.next(); err != nil {
			return err
		}
		heap.Fix(&h, 0)
	}
	return nil
}

// run reads one sorted file.
type run struct {
	file  vfs.File
	from  *bufio.Reader
	turn  int // later runs have higher numbers
	now   version
	ended bool
}

func (r *run) next() error {
	size, err := binary.ReadUvarint(r.from)
	if errors.Is(err, io.EOF) {
		r.ended = true
		return nil
	}
	if err == nil {
		r.now.key, err = r.bytes(r.now.key, size)
	}
	if err == nil {
		r.now.order, err = binary.ReadUvarint(r.from)
	}
	var deleted byte
	if err == nil {
		deleted, err = r.from.ReadByte()
	}
	if err == nil {
		size, err = binary.ReadUvarint(r.from)
	}
	if err == nil {
		r.now.deleted = deleted != 0
		r.now.value, err = r.bytes(r.now.value, size)
	}
	return err
}

// bytes reads a field, and reuses the memory of an earlier version.
func (r *run) bytes(into []byte, size uint64) ([]byte, error) {
	into = slices.Grow(into[:0], int(size))[:size]
	_, err := io.ReadFull(r.from, into)
	return into, err
}

// runHeap has the run with the next version first: the one with the lowest key, then the one with the
// newest version, then the later run. Runs that have ended come last.
type runHeap []*run

func (h runHeap) Len() int { return len(h) }

func (h runHeap) Less(i, k int) bool {
	a, b := h[i], h[k]
	switch c := bytes.Compare(a.now.key, b.now.key); {
	case a.ended || b.ended:
		return !a.ended
	case c != 0:
		return c < 0
	case a.now.order != b.now.order:
		return a.now.order > b.now.order
	}
	return a.turn > b.turn
}

func (h runHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*run)) }

func (h *runHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
