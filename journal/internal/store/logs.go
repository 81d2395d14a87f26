package store

import (
	"bytes"
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

// listLogs names the logs of a directory in their order.
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

// newLogReader reads a log by the type that Pebble gives its number and hides.
func newLogReader[N ~uint64](of func(io.Reader, N) *pebblelog.Reader, r io.Reader, number uint64) *pebblelog.Reader {
	return of(r, N(number))
}

// ReadLog calls visit for every batch of a log up to its end, which is nil, or up to
// what cannot be read.
func ReadLog(r io.Reader, number uint64, visit func(repr []byte) error) error {
	records := newLogReader(pebblelog.NewReader, r, number)
	var buf bytes.Buffer
	for {
		one, err := records.Next()
		if err == nil {
			buf.Reset()
			_, err = io.Copy(&buf, one)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(buf.Bytes())
		}
		if err != nil {
			return err
		}
	}
}

// CheckLogs is [record.ErrCorrupt] when batches are missing between those that the logs
// hold, which Pebble does not notice: it takes a log that was cut between two records, or
// is not there, for one that ends there. The mark tells what is cut off the end of the
// last log. Logs are checked before Pebble opens the store, as that removes them.
func CheckLogs(fsys vfs.FS, dir string, m *Mark) error {
	logs, err := listLogs(fsys, dir)
	if err != nil {
		return err
	}
	first, next, err := liveLogs(fsys, dir)
	if err != nil {
		return err
	}
	c := logCheck{next: next}
	for _, log := range logs {
		if log.number < first {
			continue // all of it is in tables; Pebble keeps the file to use it again
		}
		if err := c.read(fsys, dir, log); err != nil {
			return err
		}
	}
	if !c.stated {
		return nil
	}
	return m.Reached(c.newest)
}

// logCheck is a pass over the logs in their order.
type logCheck struct {
	next   uint64 // the number of the record that must not be missing
	newest record.Totals
	stated bool // newest was read
}

func (c *logCheck) read(fsys vfs.FS, dir string, log logFile) error {
	f, err := fsys.Open(fsys.PathJoin(dir, log.name))
	if err != nil {
		return err
	}
	err = ReadLog(f, log.number, func(repr []byte) error { return c.batch(repr, log.name) })
	if closeErr := f.Close(); errors.Is(err, record.ErrCorrupt) {
		return errors.Join(err, closeErr)
	}
	return nil // Pebble itself judges a log that cannot be read
}

func (c *logCheck) batch(repr []byte, log string) error {
	header, ok := batchrepr.ReadHeader(repr)
	if !ok || header.Count == 0 {
		return nil
	}
	if begins := uint64(header.SeqNum); begins > c.next {
		return fmt.Errorf("%w: %d records are missing before log %s", record.ErrCorrupt, begins-c.next, log)
	}
	c.next = max(c.next, uint64(header.SeqNum)+uint64(header.Count))
	return c.state(repr)
}

// state keeps the state record of a batch, if it has one.
func (c *logCheck) state(repr []byte) error {
	r := batchrepr.Read(repr)
	for {
		_, key, value, ok, err := r.Next()
		if err != nil {
			return fmt.Errorf("%w: a batch in the log does not parse", record.ErrCorrupt)
		}
		if !ok {
			return nil
		}
		if !bytes.Equal(key, record.StateKey) {
			continue
		}
		body, err := record.Unseal(key, value)
		if err == nil {
			c.newest, err = record.DecodeTotals(body)
		}
		if err != nil {
			return err
		}
		c.stated = true
	}
}
