package journal_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// contract 7: a recovery that has lost the newest copy of an entry does not bring back an older one.
func TestRecoveryBringsBackNoOldCopy(t *testing.T) {
	for name, test := range map[string]struct{ flushed, written bool }{
		"in a log":                        {false, true},
		"in tables":                       {true, true},
		"in a log, and no write after it": {false, false},
		"in tables, and no write after":   {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			j := open(t, mem)
			put(t, j, key("b"), "1")
			no(t, second(j.Fill(key("a"), observed("old"), always)))
			if test.flushed {
				no(t, j.FlushTables())
			}
			no(t, second(j.Fill(key("a"), observed("the newest value"), always)))
			no(t, second(j.Fill(key("c"), observed("c"), always)))
			if test.written {
				put(t, j, key("d"), "1")
			}
			j.MarkNow()
			files := readAll(t, mem)
			damaged := 0
			for name, text := range files {
				if strings.HasSuffix(name, ".log") && strings.Contains(text, "the newest value") {
					files[name] = strings.Replace(text, "the newest value", "the newest valve", 1)
					damaged++
				}
			}
			if damaged != 1 {
				t.Fatalf("%d logs have the value", damaged)
			}
			left := diskWith(t, files)
			r, err := recoverAll(left)
			if err != nil || r.Healthy {
				t.Fatalf("%+v, %v", r, err)
			}
			recovered := open(t, left)
			expect(t, recovered, key("b"), journal.Value, "1")
			expect(t, recovered, key("a"), journal.Unknown, "")
			if !r.Missing.CopiesCut || r.Salvaged.Settled != 0 {
				t.Errorf("the report is %+v", r)
			}
		})
	}
}

// The report of a recovery survives the process: it is in a file next to the copy before the new
// journal replaces the old one.
func TestReportOutlivesTheRecovery(t *testing.T) {
	v, d := cutVictim(t)
	mem := v.onDisk(t, d)
	r, err := recoverAll(mem)
	no(t, err)
	f, err := mem.Open(copyDir + ".json")
	no(t, err)
	text, err := io.ReadAll(f)
	no(t, errors.Join(err, f.Close()))
	var kept journal.Recovery
	no(t, json.Unmarshal(text, &kept))
	if diff := cmp.Diff(*r, kept); diff != "" {
		t.Error(diff)
	}
}

// A directory whose format file is lost or garbled is refused with a line that names the recovery,
// which repairs it. For a directory of a newer version, the line does not name the recovery.
func TestLostFormatNamesTheRecovery(t *testing.T) {
	v := victims(t)[0]
	for name, d := range map[string]damage{
		"lost":    {file: "FORMAT", gone: true},
		"garbled": {file: "FORMAT", text: "botwired j"},
		"newer":   {file: "FORMAT", text: "botwired journal 99\n"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := v.onDisk(t, d)
			_, err := journal.Open(journal.Options{Dir: dir, FS: mem})
			if !errors.Is(err, journal.ErrFormat) || strings.Contains(err.Error(), "botwired recover") != (name != "newer") {
				t.Errorf("error is %v", err)
			}
			if name == "newer" {
				return
			}
			if r, err := recoverAll(mem); err != nil || !r.Complete() {
				t.Errorf("%+v, %v", r, err)
			}
			if diff := cmp.Diff(v.want, dump(t, open(t, mem))); diff == "" {
				t.Error("after a recovery, what was sent counts as known")
			}
		})
	}
}

// A recovery keeps no copy whose value is damaged: its readers would take it for a damaged one for ever.
func TestRecoveryDropsACopyWithoutItsValue(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	for _, k := range []string{"a", "b"} {
		no(t, second(j.Fill(key("%s", k), observed(k), always)))
	}
	no(t, j.Flip(journal.VersionKey(key("b"), 2)))
	no(t, j.Close())
	r, err := recoverAll(fs)
	if no(t, err); r.Healthy || r.Salvaged.Settled == 0 {
		t.Errorf("%+v", r)
	}
	j = open(t, fs)
	expect(t, j, key("a"), journal.Settled, "a")
	wantNoValue(t, j, key("b"))
	check(t, j)
}
