package serverlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func noticeOf(dropped int) []byte { return fmt.Appendf(nil, "%d dropped\n", dropped) }

// reader is a log's reader that only reads while reads is closed.
type reader struct {
	bytes.Buffer
	reads chan struct{} // closed while it reads
}

func (r *reader) Write(b []byte) (int, error) {
	<-r.reads
	return r.Buffer.Write(b)
}

func TestLogOfAReaderThatKeepsUp(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	log := newLogWriter(file, noticeOf)
	var want strings.Builder
	for i := range 10_000 {
		line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 300))
		want.WriteString(line)
		if n, err := log.Write([]byte(line)); err != nil || n != len(line) {
			t.Fatal(n, err)
		}
	}
	log.Last("the end\n")
	log.End(time.Minute)
	got, err := os.ReadFile(file.Name())
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String()+"the end\n" {
		t.Errorf("of %d bytes, %d arrived, or in another order", want.Len(), len(got))
	}
}

// A reader that has stopped blocks nobody. When it reads again, it gets a notice with the number of
// missing lines, in their place.
func TestLogOfAReaderThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &reader{reads: make(chan struct{})}
		log := newLogWriter(out, noticeOf)
		const lines, size = 9000, 1000
		write := func(i int) {
			t.Helper()
			if n, err := log.Write(fmt.Appendf(nil, "%0*d\n", size-1, i)); err != nil || n != size {
				t.Fatal(n, err)
			}
		}
		write(0)
		synctest.Wait() // it is being written
		for i := range lines {
			write(i + 1)
		}
		close(out.reads)
		synctest.Wait()
		write(lines + 1)
		log.End(time.Minute)

		kept := logBacklog / size
		var want strings.Builder
		for i := range kept + 1 {
			fmt.Fprintf(&want, "%0*d\n", size-1, i)
		}
		fmt.Fprintf(&want, "%d dropped\n%0*d\n", lines-kept, size-1, lines+1)
		if out.String() != want.String() {
			t.Errorf("%d bytes arrived, want %d, or in another order", out.Len(), want.Len())
		}
	})
}

// An ending process waits at most LogDrain for a log's reader that has stopped. If the reader is back
// by then, it gets the line that says why the process ends, however many lines were dropped.
func TestEndOfALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &reader{reads: make(chan struct{})}
		log := newLogWriter(out, noticeOf)
		line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
		for range 20 {
			_, _ = log.Write(line)
		}
		log.Last("the reason\n")
		began := time.Now()
		log.End(LogDrain)
		if took := time.Since(began); took != LogDrain {
			t.Errorf("the end took %s", took)
		}
		close(out.reads)
		log.End(time.Minute)
		if text := out.String(); !strings.HasSuffix(text, " dropped\nthe reason\n") {
			t.Errorf("the log ends in %q", text[max(0, len(text)-100):])
		}
		log.Last("another\n")
		if text := out.String(); !strings.HasSuffix(text, "the reason\nanother\n") {
			t.Errorf("after the end, the log ends in %q", text[max(0, len(text)-100):])
		}
	})
}

// partial accepts room more bytes, and then none.
type partial struct {
	bytes.Buffer
	room int
}

func (p *partial) Write(b []byte) (int, error) {
	n := min(len(b), p.room)
	p.Buffer.Write(b[:n])
	if p.room -= n; n < len(b) {
		return n, errors.New("no room")
	}
	return n, nil
}

// A file on a full disk may accept a part of a line. The next line then begins on a new line.
func TestLogThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &partial{room: 8}
		log := newLogWriter(out, noticeOf)
		for _, line := range []string{"first\n", "second\n", "third\n"} {
			_, _ = log.Write([]byte(line))
			synctest.Wait()
		}
		out.room = 1000
		_, _ = log.Write([]byte("fourth\n"))
		log.End(time.Minute)
		if got := out.String(); got != "first\nse\n2 dropped\nfourth\n" {
			t.Errorf("the log is %q", got)
		}
	})
}
