package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// FileName is the data directory's file that holds the record.
const FileName = "journal.identity"

// record is the content of the file, as JSON.
type record struct {
	// Token is a random text for each start. If it changes in the file while the daemon runs, another
	// program has replaced the file.
	Token string `json:"token"`
	Place
	// Self identifies the file itself, and Stamp is when it was written.
	Self  File      `json:"self"`
	Stamp time.Time `json:"stamp"`
	// Seq was the journal's highest sequence number: a journal that ends before it is an old one.
	Seq uint64 `json:"seq"`
	// Barrier is a time in Unix microseconds: nothing confirmed before it is fresh. 0 means no barrier.
	Barrier int64 `json:"barrier,omitempty"`
	// Fence means that writes from before the barrier may be pending, and must be compared with
	// upstream.
	Fence bool `json:"fence,omitempty"`
}

// Kind is what a start finds out about the data directory.
type Kind string

// The kinds of starts.
const (
	New      Kind = "new"      // the data directory was never used
	Same     Kind = "same"     // it is where the last daemon left it
	Rebooted Kind = "rebooted" // as Same, but the machine has restarted
	Copied   Kind = "copied"   // it was created elsewhere
	Restored Kind = "restored" // it holds old files, or files from elsewhere
	Unknown  Kind = "unknown"  // it has no record
)

// compare returns what happened to the directory since the record was written, and the evidence. own is
// the record's file.
func (r *record) compare(now Place, own File, seq uint64) (Kind, string) {
	sameBoot := r.Boot == now.Boot
	if r.Machine != "" && now.Machine != "" && r.Machine != now.Machine {
		return Copied, "it was last used on another machine"
	}
	if past, ok := r.Files[directory]; ok && now.Files[directory].otherThan(past, sameBoot) { // guard 19.23
		return Copied, "it is not the directory that the last daemon used"
	}
	switch {
	case own.otherThan(r.Self, sameBoot) || !own.written(r.Stamp):
		return Restored, "its file " + FileName + " was put there by another program"
	case seq < r.Seq:
		return Restored, fmt.Sprintf("its journal ends with write %d, and write %d was there before", seq, r.Seq)
	}
	for name, past := range r.Files {
		if now.Files[name].otherThan(past, sameBoot) {
			return Restored, name + " in it is another one than before"
		}
	}
	if r.Boot != "" && now.Boot != "" && !sameBoot {
		return Rebooted, "the machine was started since"
	}
	return Same, ""
}

// read returns a data directory's record and the file that it is in.
func read(dir string) (*record, File, error) {
	text, own, err := ReadText(filepath.Join(dir, FileName))
	if err != nil {
		return nil, File{}, err
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, File{}, fmt.Errorf("the file %s is damaged: %w", FileName, err)
	}
	if r.Token == "" || r.Stamp.IsZero() {
		return nil, File{}, fmt.Errorf("the file %s is damaged", FileName)
	}
	return r, own, nil
}

// write replaces the file durably. It sets Self and Stamp.
func (r *record) write(dir string) error {
	r.Stamp = time.Now().UTC().Truncate(time.Microsecond)
	return replace(filepath.Join(dir, FileName), r.Stamp, func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		r.Self = fileOf(info)
		return json.NewEncoder(f).Encode(r)
	})
}

// remove removes the file durably.
func remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, FileName)); err != nil {
		if isMissing(err) {
			return nil
		}
		return err
	}
	return syncDirectory(dir)
}

// WriteLine replaces a file with one line, durably.
func WriteLine(name, line string) error {
	return replace(name, time.Time{}, func(f *os.File) error { _, err := fmt.Fprintln(f, line); return err })
}

// replace replaces a file: after a power cut, it is the old or the new one. A zero stamp leaves the
// file's time as it is.
func replace(name string, stamp time.Time, fill func(*os.File) error) error {
	if err := os.Remove(name + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Chtimes(name+".new", time.Time{}, stamp); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(name))
}

// syncDirectory makes the names in a directory durable, if the platform can.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
