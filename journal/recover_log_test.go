package journal_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// contract 4: a damaged byte in a log loses only the write that contains it: neither one whose record
// continues in the next block, nor one in the same batch.
func TestADamagedByteInALogLosesOneWrite(t *testing.T) {
	tags := func(i int) []string { return []string{fmt.Sprintf("<<%d>>", i), fmt.Sprintf(">>%d<<", i)} }
	for name, test := range map[string]struct {
		writes, callers int
		damaged         int // how many of them to damage in turn: Pebble is slow with a large damaged chunk
		size            func(i int) int
	}{
		"small ones":             {60, 1, 6, func(int) int { return 200 }},
		"some to a block":        {60, 1, 6, func(i int) int { return 3000 + 7*i }},
		"longer than a block":    {4, 1, 1, func(i int) int { return 100_000 - 100*i }},
		"of all sizes":           {30, 1, 3, func(i int) int { return []int{10, 60_000, 9_000, 500}[i%4] }},
		"many to a batch":        {400, 100, 3, func(i int) int { return 100 + i }},
		"long ones in a batch":   {64, 16, 1, func(i int) int { return 9_000 + 100*i }},
		"as long as a block":     {4, 1, 1, func(i int) int { return 32<<10 - 100 + i }},
		"blocks of equal writes": {8, 1, 1, func(int) int { return 16<<10 - 80 }},
	} {
		t.Run(name, func(t *testing.T) {
			v := &victim{}
			synctest.Test(t, func(t *testing.T) {
				disk := newStalling()
				j := open(t, disk.fs)
				for from := 0; from < test.writes; from += test.callers {
					goOn := disk.stall()
					var batch sync.WaitGroup // its first write has one to itself, and the others wait for that
					for i := from; i < min(from+test.callers, test.writes); i++ {
						batch.Go(func() { put(t, j, key("k%d", i), tags(i)[0]+noise(test.size(i))+tags(i)[1]) })
						synctest.Wait()
					}
					goOn()
					batch.Wait()
				}
				j.MarkNow()
				v.files = readAll(t, disk.fs)
			})
			want := make(map[string]bool)
			for i := range test.writes {
				want[key("k%d", i).Key] = true
			}
			tried, damaged := 0, (test.damaged+fewer-1)/fewer
			for i := 1; i < test.writes; i += test.writes / damaged {
				for _, tag := range tags(i) {
					if damaged > 1 || tried == 0 {
						tried += loses(t, v, tag, want, key("k%d", i).Key)
					}
				}
			}
			if tried < damaged {
				t.Errorf("only %d damages", tried)
			}
		})
	}
}

// loses damages the byte at a tag, and checks that the recovery loses exactly one of the wanted writes.
// It returns 0 if the tag is not there in one piece, as at the end of a block.
func loses(t *testing.T, v *victim, tag string, want map[string]bool, lost string) int {
	t.Helper()
	for file, text := range v.files {
		at := strings.Index(text, tag)
		if at < 0 || !strings.HasSuffix(file, ".log") {
			continue
		}
		mem := vfs.NewMem()
		no(t, v.write(mem, damage{file: file, text: text[:at] + "!" + text[at+1:]}))
		r, err := recoverAll(mem)
		no(t, err)
		got := make(map[string]bool)
		for _, p := range mustPending(t, mem) {
			got[p.Key] = true
		}
		left := maps.Clone(want)
		delete(left, lost)
		if !maps.Equal(got, left) {
			for k := range got {
				delete(left, k)
			}
			t.Errorf("a byte of %s is damaged: %v are lost, too; %+v", lost, slices.Sorted(maps.Keys(left)), r.Missing)
		}
		return 1
	}
	return 0
}

func mustPending(t *testing.T, mem *vfs.MemFS) []journal.Pending {
	t.Helper()
	return open(t, mem).PendingList("", 1000)
}

// contract 4: damage to synced data stops the start even if the mark does not cover it yet, because
// later data in the log shows that it was synced. Pebble's count of the synced bytes omits the unused
// end of each block, so in a long log the last writes do not show enough.
func TestDamageYoungerThanTheMarkIsNoticed(t *testing.T) {
	const writes, hole = 60, 64
	for name, test := range map[string]struct{ size, unnoticed int }{
		"all in one block":  {200, 3},
		"in several blocks": {3000, 12},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			j := open(t, mem)
			for i := range writes {
				put(t, j, key("k%d", i), fmt.Sprintf("<<%d>>", i)+noise(test.size))
			}
			v := &victim{files: readAll(t, mem)}
			file := logsOf(t, v.files, 1)[0]
			text := v.files[file]
			last := strings.Index(text, fmt.Sprintf("<<%d>>", writes-test.unnoticed))
			for at := 0; at < last; at += last * fewer / 40 {
				left := vfs.NewMem()
				d := damage{file: file, text: text[:at] + strings.Repeat("\x00", hole) + text[at+hole:]}
				no(t, v.write(left, d))
				_, err := journal.Open(journal.Options{Dir: dir, FS: left})
				if err == nil {
					t.Fatalf("a hole at %d of %d is not noticed", at, last)
				}
				mustBeCorrupt(t, err)
				no(t, second(recoverAll(left)))
				if got := len(mustPending(t, left)); got < writes-2 {
					t.Errorf("a hole at %d: %d of %d writes are left", at, got, writes)
				}
			}
		})
	}
}
