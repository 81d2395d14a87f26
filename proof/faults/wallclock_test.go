//go:build faults && linux && amd64

package faults

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wallClock shifts one process's wall clock, and no other's.
//
// A Go program gets the time from a function that the kernel maps into every process,
// the vDSO's clock_gettime. There is no library to put in between, and no time
// namespace has a wall clock of its own. So wallClock replaces the function itself, in
// the pages of this one process, by one that makes the system call and adds an offset
// to the wall clock. The monotonic clock stays right, as on a machine whose clock
// somebody sets.
type wallClock struct {
	pid         int
	from, to    uint64 // where the vDSO is mapped
	entry, size uint64 // its clock_gettime
}

// shiftedGettime is clock_gettime(2), with the offset in seconds in its last but one
// instruction.
var shiftedGettime = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov  $228, %eax
	0x0f, 0x05, // syscall
	0x85, 0xff, // test %edi, %edi        CLOCK_REALTIME is 0
	0x75, 0x07, // jne  ret
	0x48, 0x81, 0x06, 0, 0, 0, 0, // addq $offset, (%rsi)
	0xc3, // ret
}

const offsetAt = 14 // in shiftedGettime

func newWallClock(t *testing.T, d *daemon) *wallClock {
	t.Helper()
	w := &wallClock{pid: d.Pid()}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &w.from, &w.to); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.findEntry(); err != nil {
		t.Skipf("the clock of a process cannot be shifted here: %v", err)
	}
	return w
}

func (w *wallClock) findEntry() (err error) {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", w.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	image, err := io.ReadAll(io.NewSectionReader(memory, int64(w.from), int64(w.to-w.from)))
	if err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(shiftedGettime)) {
			w.entry, w.size = w.from+s.Value, s.Size
			return err
		}
	}
	return errors.Join(err, errors.New("the vDSO has no clock_gettime"))
}

// set makes the clock wrong by whole seconds from now on. It stops the process
// meanwhile, with no thread in the code that it replaces.
func (w *wallClock) set(t *testing.T, d *daemon, offset time.Duration) {
	t.Helper()
	code := append([]byte(nil), shiftedGettime...)
	binary.LittleEndian.PutUint32(code[offsetAt:], uint32(int32(offset/time.Second)))
	for range 100 {
		d.signal(t, syscall.SIGSTOP)
		eventually(t, time.Minute, "the process stands still", w.still)
		busy, err := w.busy()
		if err == nil && !busy {
			err = w.write(code)
		}
		d.signal(t, syscall.SIGCONT)
		if err != nil {
			t.Skipf("the clock of a process cannot be shifted here: %v", err)
		}
		if !busy {
			return
		}
	}
	t.Fatal("a thread is always asking for the time")
}

func (w *wallClock) write(code []byte) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", w.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = memory.WriteAt(code, int64(w.entry))
	return errors.Join(err, memory.Close())
}

// threads calls f with the content of a file in /proc for each thread.
func (w *wallClock) threads(file string, f func(text string)) error {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", w.pid, file))
	if err != nil || len(paths) == 0 {
		return errors.Join(err, errors.New("no threads"))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f(string(text))
	}
	return nil
}

func (w *wallClock) still() (moving error) {
	err := w.threads("stat", func(text string) {
		if _, state, _ := strings.Cut(text, ") "); !strings.HasPrefix(state, "T") {
			moving = errors.New("a thread runs")
		}
	})
	return errors.Join(err, moving)
}

// busy reports whether a thread stands within clock_gettime; the file syscall ends in
// its program counter.
func (w *wallClock) busy() (within bool, err error) {
	err = w.threads("syscall", func(text string) {
		fields := strings.Fields(text)
		pc, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil || pc >= w.entry && pc < w.entry+w.size {
			within = true
		}
	})
	return within, err
}
