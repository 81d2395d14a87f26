package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
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
	slices.SortFunc(logs, func(a, b logFile) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return logs, nil
}

// newLogReader reads a log by the type that Pebble gives its number and hides.
func newLogReader[N ~uint64](of func(io.Reader, N) *record.Reader, r io.Reader, number uint64) *record.Reader {
	return of(r, N(number))
}

// readLog calls visit for every batch of a log up to its end, which is nil, or up to
// what cannot be read.
func readLog(r io.Reader, number uint64, visit func(repr []byte) error) error {
	records := newLogReader(record.NewReader, r, number)
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

// checkLogs is [ErrCorrupt] when batches are missing between those that the logs hold,
// which Pebble does not notice: it takes a log that was cut between two records, or is
// not there, for one that ends there. What is cut off the end of the last log, the
// mark tells. It is asked before Pebble opens the store, as that removes the logs.
func checkLogs(fsys vfs.FS, dir string, m mark) error {
	logs, err := listLogs(fsys, dir)
	if err != nil {
		return err
	}
	first, next, err := liveLogs(fsys, dir)
	if err != nil {
		return err
	}
	var newest *totals
	for _, log := range logs {
		if log.number < first {
			continue // all of it is in tables; Pebble keeps the file to use it again
		}
		f, err := fsys.Open(fsys.PathJoin(dir, log.name))
		if err != nil {
			return err
		}
		err = readLog(f, log.number, func(repr []byte) error {
			header, ok := batchrepr.ReadHeader(repr)
			if !ok || header.Count == 0 {
				return nil
			}
			if begins := uint64(header.SeqNum); begins > next {
				return fmt.Errorf("%w: %d records are missing before log %s", ErrCorrupt, begins-next, log.name)
			}
			next = max(next, uint64(header.SeqNum)+uint64(header.Count))
			return lastTotals(repr, &newest)
		})
		if closeErr := f.Close(); errors.Is(err, ErrCorrupt) {
			return errors.Join(err, closeErr)
		}
	}
	if newest == nil {
		return nil
	}
	return m.reached(*newest)
}

// What a record of the manifest begins with: numbers under these tags, and a name.
const (
	manifestComparer   = 1
	manifestFirstLog   = 2 // the first log that is not in tables
	manifestNextFile   = 3
	manifestLastRecord = 4 // no record of that log's predecessors has a higher number
	manifestOldLog     = 9
)

// liveLogs reads from the manifest which log is the first with records that are not in
// tables, and with which record at the latest it begins: 0 where it does not say.
func liveLogs(fsys vfs.FS, dir string) (first, begins uint64, err error) {
	number, err := manifestInForce(fsys, dir)
	if err != nil || number == 0 {
		return 0, 0, err
	}
	path := manifestPath(fsys, dir, number)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("%w: the manifest %s is missing", ErrCorrupt, path)
	}
	if err != nil {
		return 0, 0, err
	}
	_ = readLog(f, 0, func(edit []byte) error { // as far as Pebble itself reads it
		d := decoder{rest: edit}
		for !d.bad && len(d.rest) > 0 {
			switch tag := d.uvarint(); tag {
			case manifestComparer:
				_ = d.string()
			case manifestNextFile, manifestOldLog:
				_ = d.uvarint()
			case manifestFirstLog:
				first = d.uvarint()
			case manifestLastRecord:
				begins = d.uvarint() + 1
			default:
				return nil // the tables
			}
		}
		return nil
	})
	return first, max(begins, firstRecord), f.Close()
}

// firstRecord is the number of the first record of any store of Pebble's.
const firstRecord = 10

// lastTotals keeps the state record of a batch, if it has one.
func lastTotals(repr []byte, newest **totals) error {
	r := batchrepr.Read(repr)
	for {
		_, key, value, ok, err := r.Next()
		if err != nil {
			return fmt.Errorf("%w: a batch in the log does not parse", ErrCorrupt)
		}
		if !ok {
			return nil
		}
		if !bytes.Equal(key, stateKey) {
			continue
		}
		body, err := unseal(key, value)
		if err != nil {
			return err
		}
		t, err := decodeTotals(body)
		if err != nil {
			return err
		}
		*newest = &t
	}
}
