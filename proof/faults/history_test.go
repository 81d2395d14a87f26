//go:build faults && linux

package faults

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/numbered"
	"github.com/botwired/botwired/proof/ask"
)

// write is an acknowledged write to a key: which of the key's writes it is, and its number in the journal.
type write struct {
	n   int
	seq uint64
}

// chronicle holds the acknowledged writes of all lives of a daemon, and the histories that the last life
// has shown.
type chronicle struct {
	mu      sync.Mutex
	next    map[string]int
	acked   map[string][]write // in the order of the writes
	shown   map[string][]api.Revision
	settled int // receipts seen
}

// Whatever kill comes, each acknowledged write keeps its receipt and its place in its entry's history, with
// its value, and what the histories have shown once stays.
func TestHistoriesOverKills(t *testing.T) {
	const kills = 20
	up, dir := newUpstream(t), t.TempDir()
	c := &chronicle{next: map[string]int{}, acked: map[string][]write{}, shown: map[string][]api.Revision{}}
	for life := range kills {
		switch life % 4 {
		case 1:
			up.down(t)
		case 3:
			up.up(t)
		}
		d := start(t, dir, up)
		eventually(t, time.Minute, "the journal is read", func() error { _, err := d.pending(); return err })
		c.compare(t, d.client)
		var writers sync.WaitGroup
		for i := range 6 {
			writers.Go(func() {
				for n := range 16 {
					if !c.put(t, d.client, fmt.Sprintf("h-%d-%d", i, n%4)) {
						return
					}
				}
			})
		}
		time.Sleep(rand.N(120 * time.Millisecond))
		d.signal(t, syscall.SIGKILL)
		d.waitExit(t, time.Minute)
		writers.Wait()
	}
	d := start(t, dir, up)
	d.drained(t, drainLimit)
	c.compare(t, d.client)
	total := 0
	for key, acked := range c.acked {
		total += len(acked)
		if newest := c.shown[key][0]; newest.State != "settled" {
			t.Errorf("%s: the newest write is %s", key, newest.State)
		}
	}
	if total < 100 || c.settled == 0 {
		t.Fatalf("%d writes acknowledged, %d seen settled: the test tests nothing", total, c.settled)
	}
	t.Logf("%d kills, %d writes acknowledged", kills, total)
	d.terminate(t)
}

// put writes a key's next value. It returns false if there is no answer.
func (c *chronicle) put(t *testing.T, to *client, key string) bool {
	c.mu.Lock()
	c.next[key]++
	n := c.next[key]
	c.mu.Unlock()
	body, err := json.Marshal(map[string]string{"value": numbered.Value(key, n, 300)})
	if err != nil {
		t.Error(err)
		return false
	}
	a, err := ask.Once(t.Context(), to.http, http.MethodPut, to.base+entryPath(key), body)
	if err != nil {
		return false
	}
	_, number, _ := strings.Cut(a.Header.Get("Botwired-Write"), "seq=")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || a.Status != http.StatusOK {
		t.Errorf("put %s: %d %.200s, %q", key, a.Status, a.Body, number)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[key] = append(c.acked[key], write{n, seq})
	return true
}

// compare reads the history of each key and the receipt of each write.
func (c *chronicle) compare(t *testing.T, from *client) {
	t.Helper()
	for key, acked := range c.acked {
		var doc api.Revisions
		read(t, from, "/_botwired/revisions?namespace="+namespace+"&key="+key, &doc)
		if diff := c.differs(key, acked, doc.Revisions); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
		c.shown[key] = doc.Revisions
		for i, w := range acked {
			var r api.Receipt
			read(t, from, fmt.Sprint("/_botwired/receipts/", w.seq), &r)
			state := "missing" // as differs reports
			for _, v := range doc.Revisions {
				if v.Seq != nil && *v.Seq == w.seq {
					state = v.State
				}
			}
			agree := state == r.State || state == "pending" && r.State == "settled" || // meanwhile
				// upstream has confirmed it after a newer write had replaced it, which is pending
				state == "settled" && r.State == "superseded" && doc.Revisions[0].State == "pending"
			if r.Key != key || !agree {
				t.Errorf("%s: write %d is %s in the history, its receipt says %+v", key, w.seq, state, r)
			}
			if r.State == "superseded" && i == len(acked)-1 && w.n == c.next[key] {
				t.Errorf("%s: write %d is superseded, and no write came after it: %+v", key, w.seq, r)
			}
			if r.State == "settled" {
				c.settled++
			}
		}
	}
}

// differs says what is wrong with a key's history, which is the newest first.
func (c *chronicle) differs(key string, acked []write, shown []api.Revision) string {
	ordered := slices.IsSortedFunc(shown, func(a, b api.Revision) int { return -cmp.Compare(*a.Seq, *b.Seq) })
	if !ordered {
		return fmt.Sprintf("the history is out of order: %+v", shown)
	}
	for _, w := range acked {
		at := slices.IndexFunc(shown, func(v api.Revision) bool { return *v.Seq == w.seq })
		if at < 0 {
			return fmt.Sprintf("write %d (%d) is not in the history of %d", w.seq, w.n, len(shown))
		}
		if n, err := number(key, shown[at].Text()); err != nil || n != w.n {
			return fmt.Sprintf("write %d has value %d, not %d: %v", w.seq, n, w.n, err)
		}
	}
	for _, before := range c.shown[key] {
		if !slices.ContainsFunc(shown, func(v api.Revision) bool {
			return *v.Seq == *before.Seq && v.Text() == before.Text() && v.UpdatedAt == before.UpdatedAt
		}) {
			return fmt.Sprintf("version %d is gone", *before.Seq)
		}
	}
	return ""
}

func read(t *testing.T, from *client, path string, doc any) {
	t.Helper()
	status, answer, err := from.do(http.MethodGet, path, nil)
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(answer, doc)
	}
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s: %d %.200s, %v", path, status, answer, err)
	}
}
