package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	pebblelog "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
)

// logFile is one of Pebble's write-ahead logs.
type logFile struct {
	name   string
	number uint64
}

// listLogs returns the logs of a directory in order.
func listLogs(fsys vfs.FS, dir string) ([]logFile, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var logs []logFile
	for _, name := range names {
		var number uint64
		if _, err := fmt.Sscanf(name, "%d.log", &number); err == nil && name == fmt.Sprintf("%06d.log", number) {
			logs = append(logs, logFile{name, number})
		}
	}
	slices.SortFunc(logs, func(a, b logFile) int { return strings.Compare(a.name, b.name) })
	return logs, nil
}

// newLogReader returns a reader of a log. Pebble hides N, the type of the log's number.
func newLogReader[N ~uint64](of func(io.Reader, N) *pebblelog.Reader, r io.Reader, number uint64) *pebblelog.Reader {
	return of(r, N(number))
}

// ReadLog calls visit for every batch of a log, up to its end or to damage. At the end, err is nil and
// end is the trailer's offset. At damage, end is the offset after the last intact batch.
func ReadLog(r io.Reader, number uint64, visit func(repr []byte) error) (end int64, err error) {
	records := newLogReader(pebblelog.NewReader, r, number)
	var buf bytes.Buffer
	for {
		one, err := records.Next()
		if err == nil {
			buf.Reset()
			_, err = io.Copy(&buf, one)
		}
		if errors.Is(err, io.EOF) {
			return records.Offset(), nil
		}
		if err == nil {
			err = visit(buf.Bytes())
		}
		if err != nil {
			return end, err
		}
		end = records.Offset()
	}
}

// checkLogs returns [record.ErrCorrupt] if the logs that are not in tables yet have lost records and
// Pebble would not notice: Pebble takes a missing log, or one that is cut between two records, for one
// that ends there. The mark shows if the end of the last log was cut off. The caller checks the logs
// before Pebble opens the store and removes them.
//
// Pebble begins a log in two ways. When it opens a store, it first writes all older logs into tables.
// Later, it first ends the current log with a trailer, and syncs that. So every log but the last has a
// trailer, and the numbers of the records continue from each log to the next.
func checkLogs(fsys vfs.FS, dir string) error {
	logs, err := listLogs(fsys, dir)
	if err != nil {
		return err
	}
	live, err := readLiveLogs(fsys, dir)
	if err != nil {
		return err
	}
	logs = slices.DeleteFunc(logs, func(log logFile) bool {
		return log.number < live.first // all of it is in tables; Pebble keeps the file for reuse
	})
	if len(logs) == 0 {
		return nil
	}
	c := logCheck{next: live.begins}
	switch first := logs[0].number; {
	case first == live.first:
		c.next = 0 // the first log begins at its first record
	// guard 4.9
	case first < live.nextFile:
		return fmt.Errorf("%w: log %06d is missing", record.ErrCorrupt, live.first)
	}
	for i, log := range logs {
		if err := c.read(fsys, dir, log, i == len(logs)-1); err != nil {
			return err
		}
	}
	return nil
}

// logCheck checks the logs in their order.
type logCheck struct {
	next uint64 // the number that the next record must not exceed; 0 means any
}

func (c *logCheck) read(fsys vfs.FS, dir string, log logFile, last bool) error {
	f, err := fsys.Open(fsys.PathJoin(dir, log.name))
	if err != nil {
		return err
	}
	end, err := ReadLog(f, log.number, func(repr []byte) error { return c.batch(repr, log.name) })
	switch {
	case last && !errors.Is(err, record.ErrCorrupt):
		err = checkEnd(f, end, log)
	case err == nil && !endsAt(f, end, log.number): // guard 4.8
		err = fmt.Errorf("%w: log %s ends too early", record.ErrCorrupt, log.name)
	}
	if closeErr := f.Close(); errors.Is(err, record.ErrCorrupt) {
		return errors.Join(err, closeErr)
	}
	return nil // Pebble itself judges a log that cannot be read
}

// checkEnd checks the last log. A power cut may have torn the end that was not synced. Pebble takes any
// damage in the last block for such a torn end, even if later data says that the damaged place was
// synced. The log does not always say so, because Pebble underestimates what was synced. The mark is
// exact, but up to markEvery late.
func checkEnd(f vfs.File, end int64, log logFile) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	from := end &^ (LogBlock - 1)
	rest := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(rest, from); err != nil {
		return err
	}
	if syncedBehind(rest, from, end, log.number) { // guard 4.14
		return fmt.Errorf("%w: log %s is damaged behind %d, and acknowledged writes come behind it", record.ErrCorrupt, log.name, end)
	}
	return nil
}

const (
	trailerSize = 11
	trailerKind = 5 // a whole chunk of a log that may have been reused
)

// endsAt reports whether a log's trailer is at an offset: an empty chunk without a checksum, with the
// log's number plus 1. Pebble checks only the number, and so mistakes a chunk with one flipped bit for
// a trailer.
func endsAt(f io.ReaderAt, offset int64, number uint64) bool {
	var found, want [trailerSize]byte
	want[6] = trailerKind
	binary.LittleEndian.PutUint32(want[7:], uint32(number)+1)
	n, _ := f.ReadAt(found[:], offset)
	return n == trailerSize && found == want
}

func (c *logCheck) batch(repr []byte, log string) error {
	header, ok := batchrepr.ReadHeader(repr)
	if !ok || header.Count == 0 {
		return nil
	}
	if begins := uint64(header.SeqNum); c.next != 0 && begins > c.next { // guard 4.7
		return fmt.Errorf("%w: records are missing in or before log %s: %d of them", record.ErrCorrupt, log, begins-c.next)
	}
	c.next = max(c.next, uint64(header.SeqNum)+uint64(header.Count))
	return nil
}
