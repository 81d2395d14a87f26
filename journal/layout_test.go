package journal_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"

	"github.com/botwired/botwired/journal"
)

// layout makes a victim with records in tables and logs that Pebble rarely produces.
type layout struct {
	*heldTables
	victim *victim
	steps  int
	fill   func(*layout)
}

// copies makes changes that the state record does not count.
func (l *layout) copies() {
	no(l.t, second(l.j.Fill(key("filled"), observed(fmt.Sprint("filled, step ", l.steps)), always)))
	no(l.t, second(l.j.Fill(key("settled%d", l.steps%8), observed(fmt.Sprint("copy, step ", l.steps)), always)))
}

// everything makes every kind of change.
func (l *layout) everything() {
	t, j, i := l.t, l.j, l.steps
	l.copies()
	put(t, j, key("pending%d", i%8), fmt.Sprint("pending, step ", i))
	put(t, j, key("settled%d", i%8), fmt.Sprint("settled, step ", i))
	settle(t, j, key("settled%d", i%8))
	w := put(t, j, key("dead%d", i%8), fmt.Sprint("dead, step ", i))
	no(t, j.DeadLetter(w, journal.Failure{Status: 413, Reason: "too big"}))
	sent(t, j, put(t, j, key("pending%d", (i+3)%8), fmt.Sprint("sent, step ", i)))
	no(t, j.BeginListing("ns").Commit(rows("other", fmt.Sprint(i)), true))
}

func (l *layout) writes() {
	put(l.t, l.j, key("pending%d", l.steps%8), fmt.Sprint("pending, step ", l.steps))
}

// step makes the changes of the layout.
func (l *layout) step() {
	l.t.Helper()
	l.steps++
	l.fill(l)
	l.victim.later(readAll(l.t, l.FS))
}

// other makes a change that hides none of the checked records.
func (l *layout) other() { l.learn("other", "other") }

// nextLog begins a log. The previous log's table waits.
func (l *layout) nextLog() {
	l.t.Helper()
	l.rotate()
	<-l.waiting
}

// table writes the waiting table, and makes the next one wait.
func (l *layout) table() {
	l.allow <- struct{}{}
	<-l.waiting
	l.victim.later(readAll(l.t, l.FS))
}

// lastTable writes the waiting table if there is no next one.
func (l *layout) lastTable() {
	l.t.Helper()
	l.enter()
	l.victim.later(readAll(l.t, l.FS))
}

// lays map each name to the steps that produce its tables and logs.
var lays = map[string]func(*layout){
	"in three logs": func(l *layout) {
		l.step()
		l.nextLog()
		l.step()
		l.step()
		l.rotate()
		l.step()
		l.other()
	},
	"in all logs but the last": func(l *layout) {
		l.step()
		l.nextLog()
		l.step()
		l.step()
		l.rotate()
		l.other()
	},
	"in a log that ended before the last table": func(l *layout) {
		l.other()
		l.nextLog()
		l.step()
		l.step()
		l.rotate()
		l.table()
		l.other()
	},
	"in a log of which all is older than the last table": func(l *layout) {
		l.other()
		l.nextLog()
		l.step()
		l.step()
		l.lastTable()
		l.nextLog()
	},
	"in late tables, and logs used again": func(l *layout) {
		l.step()
		l.nextLog()
		l.step()
		l.rotate()
		l.table()
		l.other()
		l.rotate()
		l.table()
		for range 6 {
			l.other()
			l.rotate()
		}
	},
	"in tables and a log": func(l *layout) {
		for range 3 {
			l.step()
			l.nextLog()
			l.lastTable()
		}
		l.step()
		l.other()
	},
}

func layouts(t *testing.T) []*victim {
	t.Helper()
	var all []*victim
	for what, fill := range map[string]func(*layout){
		"copies": (*layout).copies, "everything": (*layout).everything, "writes": (*layout).writes,
	} {
		for where, lay := range lays {
			l := &layout{heldTables: holdTables(t), fill: fill, victim: &victim{name: what + " " + where, older: make(map[string]string)}}
			lay(l)
			l.j.MarkNow()
			l.victim.want = dump(t, l.j)
			l.victim.files = readAll(t, l.FS)
			all = append(all, l.victim, startedAgain(t, l.victim))
		}
	}
	slices.SortFunc(all, func(a, b *victim) int { return strings.Compare(a.name, b.name) })
	return all
}

// startedAgain returns the remains of a victim that was started and killed once more.
func startedAgain(t *testing.T, of *victim) *victim {
	t.Helper()
	v := &victim{name: of.name + ", started again", older: make(map[string]string)}
	mem := of.onDisk(t, damage{})
	j := open(t, mem)
	v.later(readAll(t, mem))
	no(t, second(j.Fill(key("other"), observed("after the start"), always)))
	j.MarkNow()
	v.want = dump(t, j)
	v.files = readAll(t, mem)
	return v
}

// newLogReader reads a log or a manifest. Pebble hides N, the type of a log's number.
func newLogReader[N ~uint64](of func(io.Reader, N) *record.Reader, r io.Reader, number uint64) *record.Reader {
	return of(r, N(number))
}

// boundaries returns the offsets where the records of a log or a manifest begin, and where the last one
// ends.
func boundaries(name, text string) (at []int) {
	var number uint64
	_, _ = fmt.Sscanf(name, "%d.log", &number)
	r := newLogReader(record.NewReader, strings.NewReader(text), number)
	for {
		at = append(at, int(r.Offset()))
		one, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, one)
		}
		if err != nil {
			return at
		}
	}
}

const (
	page        = 4096
	chunkHeader = 19 // the maximum size of a record's header
	logNumberAt = 7  // the offset of the log's number in it
)

// faults returns damage to whole pages and records, and to single bits of record headers: all bits if
// every is set, otherwise those that change a log's number.
func (v *victim) faults(every bool) []damage {
	var all []damage
	for name, text := range v.files {
		for other, its := range v.files {
			// Pebble cannot tell two tables of the same length apart.
			if other != name && kindOf(other) == kindOf(name) && (kindOf(name) != ".sst" || len(its) != len(text)) {
				all = append(all, damage{what: "swapped", file: name, text: its})
			}
		}
		for at := 0; at < len(text); at += page {
			end := min(at+page, len(text))
			all = append(all, damage{what: "zeroed page", file: name, text: text[:at] + strings.Repeat("\x00", end-at) + text[end:]})
		}
		if kind := kindOf(name); kind != ".log" && kind != "MANIFEST" {
			continue
		}
		for _, at := range boundaries(name, text) {
			all = append(all, damage{what: "cut at record", file: name, text: text[:at]})
			all = append(all, damage{what: "zeroed to end", file: name, text: text[:at] + strings.Repeat("\x00", len(text)-at)})
			header := text[at:min(at+chunkHeader, len(text))]
			for i := range header {
				for bit := range 8 {
					if every || i == logNumberAt && bit < 2 {
						b := []byte(text)
						b[at+i] ^= 1 << bit
						all = append(all, damage{what: "flipped header", file: name, text: string(b)})
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b damage) int { return strings.Compare(a.file+a.what, b.file+b.what) })
	return all
}

func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, ".log"), strings.HasSuffix(name, ".sst"):
		return name[len(name)-4:]
	case strings.HasPrefix(name, "marker"):
		return "marker"
	}
	return strings.TrimRight(name, "-0123456789")
}

// contract 4: after damage to any one file, with any layout of tables and logs, the journal is as
// before or reports the damage.
func TestEveryFaultOfALayoutIsNoticed(t *testing.T) {
	for _, v := range append(layouts(t), victims(t)...) {
		t.Run(v.name, func(t *testing.T) {
			if got := v.suffer(damage{}); got != "intact" {
				t.Fatalf("undamaged, it is %s", got)
			}
			all := v.faults(*everyDamage)
			for name := range v.files {
				all = append(all, damage{what: "deleted", file: name, gone: true}, damage{what: "emptied", file: name})
				if old, ok := v.older[name]; ok && old != v.files[name] {
					all = append(all, damage{what: "older version", file: name, text: old})
				}
			}
			rng := rand.New(rand.NewPCG(7, 8))
			rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			v.sufferAll(t, all[:(len(all)+fewer-1)/fewer])
		})
	}
}
