package engines

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/natskv"
)

// Each start has a name of its own. It knows those of the earlier ones, and what was written under them.
func TestEachStartHasAName(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(dir, "HOST"), []byte("the-name-of-a-directory\n"), 0o600)) // by an older botwired
	want, names := upstream.Earlier{}, []string{"the-name-of-a-directory"}
	for i, last := range []uint64{7, 7, 20} {
		h, err := newHost(dir, last)
		noError(t, err)
		want[names[i]] = last
		if diff := cmp.Diff(want, h.earlier); diff != "" || slices.Contains(names, h.name) {
			t.Errorf("%q: %s", h.name, diff)
		}
		names = append(names, h.name)
	}
	if name, err := os.Hostname(); err == nil && strings.Trim(name, hostText) == "" && len(name) < 40 && !strings.HasPrefix(names[1], name+"-") {
		t.Errorf("%q does not begin with this machine's name, %s", names[1], name)
	}
	for range mostHosts + 10 {
		_, err := newHost(dir, 30)
		noError(t, err)
	}
	if h, err := newHost(dir, 40); err != nil || len(h.earlier) > mostHosts+1 {
		t.Errorf("%d names are remembered, %v", len(h.earlier), err)
	}
	for _, text := range []string{"", "short", "with a space in it, and more of it", "a-name-of-sixteen-letters 7x", strings.Repeat("x", 5000)} {
		noError(t, os.WriteFile(filepath.Join(dir, "HOST"), []byte(text), 0o600))
		if h, err := newHost(dir, 1); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "HOST")) {
			t.Errorf("%.20q: host %q, error %v", text, h.name, err)
		}
	}
}

// A saved mark is read back unchanged. A mark that cannot be read is an error, not a missing mark.
func TestMarksInAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "NATS")
	marks := fileMarks{name}
	got, err := marks.Load()
	noError(t, err)
	if got != (natskv.Mark{}) {
		t.Errorf("a new directory has the mark %+v", got)
	}
	want := natskv.Mark{Created: time.Date(2026, 11, 23, 8, 25, 42, 123456789, time.UTC), Revision: 1<<63 + 1, Latest: 1795422342.123456}
	for range 2 {
		noError(t, marks.Save(want))
		got, err = marks.Load()
		noError(t, err)
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		want.Revision++
	}
	// The journal may have seen more of that bucket, as long as nobody has accepted another one since.
	seen := got
	seen.Revision, seen.Entry, seen.Written = got.Revision+5, journal.ID{Namespace: "ns", Key: "k"}, 1795422350
	text, err := json.Marshal(seen)
	noError(t, err)
	for change, want := range map[*natskv.Mark]natskv.Mark{
		{}:                             seen,
		{Accepted: 1}:                  got,
		{Created: want.Created.Add(1)}: got,
	} {
		saved := got
		saved.Accepted = change.Accepted
		if !change.Created.IsZero() {
			saved.Created = change.Created
		}
		want.Accepted, want.Created = saved.Accepted, saved.Created
		noError(t, marks.Save(saved))
		if m, err := (journaledMarks{marks, text}).Load(); err != nil || m != want {
			t.Errorf("of %+v and the journal's the mark is %+v, %v", saved, m, err)
		}
	}
	// Whoever deletes the file accepts the bucket that is there, also at later starts.
	none := journaledMarks{fileMarks{name + "none"}, text}
	accepted, err := none.Load()
	if err != nil || accepted.Revision != 0 {
		t.Errorf("without the file the mark is %+v, %v", accepted, err)
	}
	accepted.Created, accepted.Revision = got.Created, got.Revision-1
	noError(t, none.Save(accepted))
	if m, err := none.Load(); err != nil || m != accepted {
		t.Errorf("of %+v and the journal's the mark is %+v, %v", accepted, m, err)
	}
	if _, err := (journaledMarks{marks, []byte("{")}).Load(); err == nil {
		t.Error("what the journal has cannot be read, and counts as nothing")
	}
	for _, text := range []string{"", "{", "[]", strings.Repeat(" ", 5000)} {
		noError(t, os.WriteFile(name, []byte(text), 0o600))
		if m, err := marks.Load(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%.20q: %+v, %v", text, m, err)
		}
	}
}
