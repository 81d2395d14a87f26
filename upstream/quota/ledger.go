package quota

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
)

// spareLines is the number of lines that the file may have beyond two for each namespace at the last
// rewrite. Above it, the ledger rewrites the file, without the windows that have ended.
const spareLines = 1024

// Use says how many writes of a namespace upstream has counted in one window of its quota.
type Use struct {
	Namespace string
	Ends      time.Time // end of the window, to the millisecond
	Used      int
	Reserve   int // left of the quota's reserve
}

// Ledger keeps the use of quotas durably: in a file, one line for each record, with a checksum. Among a
// namespace's lines for one window, the highest Used counts; all other fields come from the last line.
//
// The file is beside the journal's directory, not in it: a recovery of the journal must not forget the
// use of quotas, and a ledger needs no new format of the directory (contract 21). A record is useful
// for one window; if it is lost, upstream answers 429.
//
// The methods may be called concurrently. The owner of the journal's directory owns the file.
type Ledger struct {
	fs   vfs.FS
	name string

	mu    sync.Mutex // guards the fields below, and is held during a sync
	known map[string]Use
	file  vfs.File // nil if the next record has to rewrite the file
	size  int64
	lines int
	most  int // with more lines than most, the next record rewrites the file
}

// OpenLedger reads the records of an earlier process from a file of fsys; nil means the operating
// system's file system. If the file cannot be read, OpenLedger logs the error and keeps what it could
// read.
func OpenLedger(name string, fsys vfs.FS, logger *slog.Logger) *Ledger {
	if fsys == nil {
		fsys = vfs.Default
	}
	l := &Ledger{fs: diskfs.Patient(fsys, logger), name: name, known: make(map[string]Use)}
	if err := l.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("the record of the quota cannot be read: botwired counts from what is left of it", "file", name, "error", err)
	}
	return l
}

// Spent returns the use in windows that have not ended.
func (l *Ledger) Spent() []Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	return slices.Collect(maps.Values(l.known))
}

// Record adds to the ledger. The records are durable when it returns nil. After an error, the next call
// rewrites the whole file.
func (l *Ledger) Record(spent ...Use) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines bytes.Buffer
	for _, u := range spent {
		u.Ends = u.Ends.Truncate(time.Millisecond)
		l.merge(u)
		writeLine(&lines, l.known[u.Namespace])
	}
	if l.file == nil || l.lines > l.most {
		return l.rewrite()
	}
	return l.append(lines.Bytes(), len(spent))
}

// Close replaces the records of the given windows by exact ones, whose numbers may be lower, and closes
// the file.
func (l *Ledger) Close(exact []Use) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range exact {
		u.Ends = u.Ends.Truncate(time.Millisecond)
		l.known[u.Namespace] = u
	}
	var err error
	if len(exact) > 0 {
		err = l.rewrite()
	}
	return errors.Join(err, l.closeFile())
}

func (l *Ledger) merge(u Use) {
	if past, ok := l.known[u.Namespace]; ok && past.Ends.Equal(u.Ends) {
		u.Used = max(u.Used, past.Used)
	}
	l.known[u.Namespace] = u
}

// forget drops the windows that have ended.
func (l *Ledger) forget() {
	now := time.Now()
	maps.DeleteFunc(l.known, func(_ string, u Use) bool { return !u.Ends.After(now) })
}

func (l *Ledger) append(lines []byte, n int) error {
	written, err := l.file.WriteAt(lines, l.size)
	l.size += int64(written)
	l.lines += n
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return errors.Join(err, l.closeFile()) // a failed sync is not retried
	}
	return nil
}

// rewrite rewrites the file, with a line for each window that has not ended. After a power cut, the
// file is either the old or the new one.
func (l *Ledger) rewrite() error {
	err := l.closeFile()
	l.forget()
	var lines bytes.Buffer
	for _, u := range l.known {
		writeLine(&lines, u)
	}
	size := int64(lines.Len())
	next := l.name + ".new"
	if err == nil {
		err = diskfs.WriteFile(l.fs, next, lines.Bytes())
	}
	if err == nil {
		err = l.fs.Rename(next, l.name)
	}
	if err == nil {
		err = diskfs.SyncDir(l.fs, l.fs.PathDir(l.name))
	}
	if err == nil {
		l.file, err = l.fs.OpenReadWrite(l.name, vfs.WriteCategoryUnspecified)
	}
	l.size, l.lines, l.most = size, len(l.known), 2*len(l.known)+spareLines
	return err
}

func (l *Ledger) closeFile() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// read reads the lines of the file. It skips damaged lines: a power cut may have torn the last line
// before anything relied on it. It takes little memory for a file of any size, and opens only a regular
// file: a pipe would block the start.
func (l *Ledger) read() error {
	info, err := l.fs.Stat(l.name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	f, err := l.fs.Open(l.name)
	if err != nil {
		return err
	}
	lines := bufio.NewReader(f) // its buffer has room for any line of ours
	for err == nil {
		var line []byte
		switch line, err = lines.ReadSlice('\n'); {
		case err == nil:
			if u, ok := parseLine(line); ok {
				l.merge(u)
			}
		case errors.Is(err, bufio.ErrBufferFull): // a damaged line, in parts
			err = nil
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeLine writes a line: the namespace, the end of the window in Unix milliseconds, the numbers, and
// a checksum of all that.
func writeLine(to *bytes.Buffer, u Use) {
	text := fmt.Appendf(nil, "%s %d %d %d", u.Namespace, u.Ends.UnixMilli(), u.Used, u.Reserve)
	fmt.Fprintf(to, "%s %08x\n", text, crc32.Checksum(text, castagnoli))
}

func parseLine(line []byte) (u Use, ok bool) {
	text := line[:max(0, bytes.LastIndexByte(line, ' '))]
	if string(line[len(text):]) != fmt.Sprintf(" %08x\n", crc32.Checksum(text, castagnoli)) {
		return u, false
	}
	var ends int64
	n, _ := fmt.Sscanf(string(text), "%s %d %d %d", &u.Namespace, &ends, &u.Used, &u.Reserve)
	u.Ends = time.UnixMilli(ends)
	return u, n == 4 && u.Used >= 0 && u.Reserve >= 0
}
