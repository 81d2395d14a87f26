package journal

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

	"github.com/botwired/botwired/journal/internal/store"
)

// spendingsSuffix makes the name of the file of a journal's [Spendings] of the directory's.
const spendingsSuffix = ".quota"

// spendingsSpare is how many lines the file may have beyond two for each namespace that it
// began with, until it is written anew, without the windows that have ended.
const spendingsSpare = 1024

// Spending is how many writes of a namespace upstream has counted in one window of its quota.
type Spending struct {
	Namespace string
	Ends      time.Time // of the window, to the millisecond
	Used      int
	Saved     int // local writes that needed none upstream
	Reserve   int // what is left of the quota's reserve; -1 if an older botwired has recorded it
}

// Spendings keeps spendings durably, in a file beside the journal's directory: one line for
// each record, with a checksum. Of a namespace's lines of one window, the highest Used counts,
// and all else of the last.
//
// They are no records of the journal. They are of use for a day, the loss of them costs an
// answer of upstream's (429), and a recovery of the journal must not forget them. In a file of
// their own they need no new format of the directory (contract 21): an older botwired takes
// no notice of the file, and a newer one finds it again.
//
// The methods may be called concurrently. The owner of the journal's directory is the owner
// of the file.
type Spendings struct {
	fs     vfs.FS
	name   string
	logger *slog.Logger

	mu    sync.Mutex // guards the fields below, and is held during a sync
	known map[string]Spending
	file  vfs.File // nil: it has to be written anew
	size  int64
	lines int
	most  int // lines; more than these, and the file is written anew
}

// OpenSpendings reads what an earlier process has recorded beside opts.Dir. It logs a file
// that cannot be read, and goes on without.
func OpenSpendings(opts Options) *Spendings {
	opts = opts.withDefaults()
	s := &Spendings{fs: opts.FS, name: opts.Dir + spendingsSuffix, logger: opts.Logger, known: make(map[string]Spending)}
	if err := s.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("the record of the quota cannot be read: botwired counts from what is left of it", "file", s.name, "error", err)
	}
	return s
}

// Spent returns what is known of windows that have not ended.
func (s *Spendings) Spent() []Spending {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	return slices.Collect(maps.Values(s.known))
}

// Record adds spendings. They are durable when it returns nil. After an error, the next
// call writes the whole file anew.
func (s *Spendings) Record(spent ...Spending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines bytes.Buffer
	for _, sp := range spent {
		sp.Ends = sp.Ends.Truncate(time.Millisecond)
		s.merge(sp)
		writeSpending(&lines, s.known[sp.Namespace])
	}
	if s.file == nil || s.lines > s.most {
		return s.rewrite()
	}
	return s.append(lines.Bytes(), len(spent))
}

// Close replaces what is recorded by exact figures, which may be lower, and closes the file.
func (s *Spendings) Close(exact []Spending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range exact {
		sp.Ends = sp.Ends.Truncate(time.Millisecond)
		s.known[sp.Namespace] = sp
	}
	var err error
	if len(exact) > 0 {
		err = s.rewrite()
	}
	return errors.Join(err, s.closeFile())
}

func (s *Spendings) merge(sp Spending) {
	if past, ok := s.known[sp.Namespace]; ok && past.Ends.Equal(sp.Ends) {
		sp.Used = max(sp.Used, past.Used)
	}
	s.known[sp.Namespace] = sp
}

// forget drops what is of no use any more.
func (s *Spendings) forget() {
	now := time.Now()
	maps.DeleteFunc(s.known, func(_ string, sp Spending) bool { return !sp.Ends.After(now) })
}

func (s *Spendings) append(lines []byte, n int) error {
	written, err := s.file.WriteAt(lines, s.size)
	s.size += int64(written)
	s.lines += n
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return errors.Join(err, s.closeFile()) // a failed sync is not tried again
	}
	return nil
}

// rewrite makes the file anew, with a line for each namespace: after a power cut, there is
// the file from before or this one.
func (s *Spendings) rewrite() error {
	err := s.closeFile()
	s.forget()
	var lines bytes.Buffer
	for _, sp := range s.known {
		writeSpending(&lines, sp)
	}
	size := int64(lines.Len())
	next := s.name + ".new"
	if err == nil {
		err = s.writeFile(next, lines.Bytes())
	}
	if err == nil {
		err = s.fs.Rename(next, s.name)
	}
	if err == nil {
		err = store.SyncDir(s.fs, s.fs.PathDir(s.name))
	}
	if err == nil {
		s.file, err = s.fs.OpenReadWrite(s.name, vfs.WriteCategoryUnspecified)
	}
	s.size, s.lines, s.most = size, len(s.known), 2*len(s.known)+spendingsSpare
	return err
}

func (s *Spendings) writeFile(name string, text []byte) error {
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func (s *Spendings) closeFile() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// read takes in the lines of the file. A damaged one counts for nothing: the last may have
// been torn by a power cut before anybody relied on it. Whatever the file has become, to read
// it takes little memory, and does not block the start as a pipe would.
func (s *Spendings) read() error {
	info, err := s.fs.Stat(s.name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	f, err := s.fs.Open(s.name)
	if err != nil {
		return err
	}
	lines := bufio.NewReader(f) // its buffer has room for any line of ours
	for err == nil {
		var line []byte
		switch line, err = lines.ReadSlice('\n'); {
		case err == nil:
			if sp, ok := parseSpending(line); ok {
				s.merge(sp)
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

// writeSpending writes a line: the namespace, the end of the window in Unix milliseconds, the
// numbers, and a checksum over all that.
func writeSpending(to *bytes.Buffer, sp Spending) {
	text := fmt.Appendf(nil, "%s %d %d %d %d", sp.Namespace, sp.Ends.UnixMilli(), sp.Used, sp.Saved, sp.Reserve)
	fmt.Fprintf(to, "%s %08x\n", text, crc32.Checksum(text, castagnoli))
}

// parseSpending takes the lines of an older botwired, too, which have no Saved and no Reserve.
func parseSpending(line []byte) (sp Spending, ok bool) {
	text := line[:max(0, bytes.LastIndexByte(line, ' '))]
	if string(line[len(text):]) != fmt.Sprintf(" %08x\n", crc32.Checksum(text, castagnoli)) {
		return sp, false
	}
	var ends int64
	sp.Reserve = -1
	n, _ := fmt.Sscanf(string(text), "%s %d %d %d %d", &sp.Namespace, &ends, &sp.Used, &sp.Saved, &sp.Reserve)
	sp.Ends = time.UnixMilli(ends)
	return sp, (n == 3 || n == 5) && sp.Used >= 0 && sp.Saved >= 0
}
