package diskfs

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// recorder is a file that counts how often each of its bytes was written.
type recorder struct {
	vfs.File
	content []byte
	times   []int
	end     int // end of the written part
	fails   bool
}

func (f *recorder) Write(b []byte) (int, error) {
	n, err := f.put(b, f.end)
	f.end += n
	return n, err
}

func (f *recorder) WriteAt(b []byte, at int64) (int, error) {
	if f.fails {
		return 0, errors.New("no")
	}
	return f.put(b, int(at))
}

func (f *recorder) put(b []byte, at int) (int, error) {
	if need := at + len(b) - len(f.content); need > 0 {
		f.content, f.times = append(f.content, make([]byte, need)...), append(f.times, make([]int, need)...)
	}
	for i := range b {
		f.times[at+i]++
	}
	return copy(f.content[at:], b), nil
}

// A new log is filled with zeros only ahead of its records, and only as far as it is allocated.
func TestNewLogIsFilledAhead(t *testing.T) {
	for name, test := range map[string]struct {
		room  int64
		write int // bytes per write
		fails bool
	}{
		"small records":                {room: 3*zeroAhead + 77, write: 331},
		"large records":                {room: 3*zeroAhead + 77, write: zeroAhead + 5},
		"records longer than the file": {room: 1000, write: 4096},
		"not allocated":                {write: 331},
		"zeros fail":                   {room: 3 * zeroAhead, write: 331, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			file := &recorder{fails: test.fails}
			log := &zeroedLog{watchedFile: watchedFile{file, func(err error) { t.Error(err) }}, room: test.room}
			var want []byte
			record := bytes.Repeat([]byte("r"), test.write)
			for len(want) < 4*zeroAhead {
				if n, err := log.Write(record); err != nil || n != len(record) {
					t.Fatal(n, err)
				}
				want = append(want, record...)
				ahead := len(file.content) - len(want)
				filled := test.room > 0 && !test.fails
				if filled && ahead == 0 && int64(len(want)) < test.room || ahead > zeroAhead || !filled && ahead > 0 {
					t.Fatalf("after %d bytes of records there are %d zeros", len(want), ahead)
				}
				if ahead > 0 && int64(len(file.content)) > test.room {
					t.Fatalf("the file has %d bytes, and %d were allocated", len(file.content), test.room)
				}
			}
			if !bytes.Equal(file.content[:len(want)], want) || len(bytes.Trim(file.content[len(want):], "\x00")) > 0 {
				t.Error("the file does not hold the records and zeros behind them")
			}
			for i, n := range file.times {
				if n > 2 {
					t.Fatalf("byte %d was written %d times", i, n)
				}
			}
		})
	}
}

// A log gets its space when it is made, and again when it is reused: the disk may have had too little before. It
// needs none to be written to (contract 3).
func TestLogGetsItsSpace(t *testing.T) {
	const size = 1 << 20
	tries, full := 0, false
	d := New(vfs.Default, Options{LogSize: size}).(diskFS)
	d.allocate = func(f vfs.File, offset, length int64) error {
		tries++
		if full {
			return syscall.EDQUOT
		}
		return writeZeros(f, offset+length)
	}
	dir := t.TempDir()
	for i, want := range []int64{size, 0} {
		full = want == 0
		name := filepath.Join(dir, fmt.Sprintf("%d.log", i))
		f, err := d.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if room := f.(*zeroedLog).room; room != want {
			t.Errorf("a new log has %d bytes, want %d", room, want)
		}
		reused, err := d.ReuseForWrite(name, filepath.Join(dir, "reused.log"), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reused.Write([]byte("record")); err != nil {
			t.Error(err)
		}
		if err := errors.Join(f.Close(), reused.Close()); err != nil {
			t.Error(err)
		}
	}
	if tries != 4 {
		t.Errorf("two new and two reused logs had %d tries", tries)
	}
}
