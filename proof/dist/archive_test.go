package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	someDate    = time.Date(2026, 11, 22, 20, 15, 30, 0, time.UTC)
	someEntries = []entry{
		{"botwired", 0o755, []byte("a program")},
		{"docs/a page.md", 0o644, []byte("a page")},
		{"empty", 0o644, []byte{}},
	}
)

// The bytes of an archive depend on its entries and their date only: not on the order in which they
// were found, or on the zone of the clock. Unpacking it gives the entries.
func TestAnArchiveHasItsEntriesAndNothingElse(t *testing.T) {
	for _, ending := range []string{".tar.gz", ".zip"} {
		t.Run(ending, func(t *testing.T) {
			dir := t.TempDir()
			one, two := filepath.Join(dir, "one"+ending), filepath.Join(dir, "two"+ending)
			backwards := slices.Clone(someEntries)
			slices.Reverse(backwards)
			write(t, one, someEntries, someDate)
			write(t, two, backwards, someDate.In(time.FixedZone("somewhere", 5*3600+45*60)))
			if !bytes.Equal(read(t, one), read(t, two)) {
				t.Error("the order of the entries or the time zone gets into the archive")
			}
			folder, entries, err := readArchive(one)
			if err != nil || folder != "folder" {
				t.Fatalf("folder %q, %v", folder, err)
			}
			if diff := cmp.Diff(someEntries, entries, cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("what was read (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTwoEntriesOfOneName(t *testing.T) {
	twice := append(slices.Clone(someEntries), someEntries[0])
	if err := writeArchive(filepath.Join(t.TempDir(), "a.tar.gz"), "folder", twice, someDate); err == nil {
		t.Error("an archive has two entries of one name")
	}
}

// A difference between two builds is found, and its place is named.
func TestADifferenceIsNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]entry)
		date   time.Time
		want   string
	}{
		{name: "none", change: func([]entry) {}, date: someDate},
		{"content", func(e []entry) { e[1].content = []byte("a pagE") }, someDate, "at docs/a page.md"},
		{"mode", func(e []entry) { e[0].mode = 0o700 }, someDate, "at botwired"},
		{"date", func([]entry) {}, someDate.Add(time.Hour), "dates or order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, two := t.TempDir(), t.TempDir()
			changed := slices.Clone(someEntries)
			c.change(changed)
			write(t, filepath.Join(one, "a.tar.gz"), someEntries, someDate)
			write(t, filepath.Join(two, "a.tar.gz"), changed, c.date)
			err := sameFiles(one, two)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// SHA256SUMS is over each file of the folder, and no file passes that it does not fit.
func TestSums(t *testing.T) {
	begin := func(t *testing.T) string {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "b.tar.gz"), "b")
		put(t, filepath.Join(dir, "a.zip"), "a")
		if err := writeSums(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := begin(t)
	if err := verifySums(dir); err != nil {
		t.Error(err)
	}
	want := "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a.zip\n" +
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b.tar.gz\n"
	if diff := cmp.Diff(want, string(read(t, filepath.Join(dir, sumsFile)))); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}
	for what, spoil := range map[string]func(dir string){
		"a file is another":   func(dir string) { put(t, filepath.Join(dir, "a.zip"), "A") },
		"a file is unlisted":  func(dir string) { put(t, filepath.Join(dir, "c"), "c") },
		"the list is no list": func(dir string) { put(t, filepath.Join(dir, sumsFile), "a.zip\n") },
		"a file is missing": func(dir string) {
			if err := os.Remove(filepath.Join(dir, "a.zip")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		dir := begin(t)
		spoil(dir)
		if err := verifySums(dir); err == nil {
			t.Errorf("%s, and nobody says so", what)
		}
	}
}

func write(t *testing.T, file string, entries []entry, date time.Time) {
	t.Helper()
	if err := writeArchive(file, "folder", entries, date); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
