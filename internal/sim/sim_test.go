package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"github.com/botwired/botwired/journal"
)

var simulateFor = flag.Duration("sim.for", 0, "how long to go on drawing scripts, in rounds of -rapid.checks; 0 is one round")

// The contract holds whatever is done, in whatever order, and whatever fails.
func TestSimulation(t *testing.T) {
	end := time.Now().Add(*simulateFor)
	for {
		rapid.Check(t, func(rt *rapid.T) {
			s := scripts().Draw(rt, "script")
			if violation := play(t, s); violation != "" {
				rt.Fatalf("%s\nscript:\n%s", violation, s)
			}
		})
		if t.Failed() || !time.Now().Before(end) {
			return
		}
	}
}

// play runs a script in a bubble of its own and returns the first violation.
func play(t *testing.T, s script) (violation string) {
	synctest.Test(t, func(*testing.T) {
		w, err := newWorld()
		if err != nil {
			violation = err.Error()
			return
		}
		for i, line := range s {
			if violation = w.step(line); violation != "" {
				violation = fmt.Sprintf("step %d (%s): %s", i+1, line, violation)
				break
			}
		}
		if violation == "" {
			violation = w.converge()
		}
		if violation != "" {
			violation += "\nupstream was asked:\n  " + strings.Join(w.up.log, "\n  ")
		}
		if err := w.close(); err != nil && violation == "" {
			violation = "closing: " + err.Error()
		}
	})
	return violation
}

// world is everything that is simulated, and the model it is held against.
type world struct {
	fs       *vfs.MemFS
	free     atomic.Int64 // on the disk
	tripwire *tripwire
	up       *service
	node     *node
	beliefs  map[journal.ID]*belief
}

// belief is what may be true of an entry.
type belief struct {
	possible  []state // one, but after a crash amid a write
	forgotten bool    // upstream has lost it: absence is possible too
	updatedAt float64 // the last that was seen, while it was present
}

// state is absence, or a value.
type state struct {
	present bool
	value   string
}

func (s state) String() string {
	if !s.present {
		return "absent"
	}
	return s.value
}

func newWorld() (*world, error) {
	w := &world{fs: vfs.NewCrashableMem(), up: newService(), beliefs: make(map[journal.ID]*belief)}
	for _, id := range entries {
		w.beliefs[id] = &belief{possible: []state{{}}}
	}
	w.free.Store(roomy)
	return w, w.start()
}

const (
	// roomy is a disk that is nearly empty.
	roomy = 1 << 40
	// noticed is how long the journal may take to see what the disk has left.
	noticed = 50 * time.Millisecond
)

// disk is a file system with as much free space as the world says.
type disk struct {
	vfs.FS
	free *atomic.Int64
}

func (d disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: uint64(d.free.Load())}, nil
}

// squeeze leaves so much room on the disk.
func (w *world) squeeze(free int64) {
	w.free.Store(free)
	time.Sleep(noticed)
}

// full reports whether writes are to be refused (contract 3).
func (w *world) full() bool { return w.free.Load() < diskReserve }

func (w *world) start() (err error) {
	w.tripwire = &tripwire{}
	wire := w.tripwire
	fs := errorfs.Wrap(disk{w.fs, &w.free}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			wire.tread()
		}
		return nil
	}))
	if w.node, err = open(fs, w.up, usual); err != nil {
		return err
	}
	w.node.start()
	return nil
}

// tripwire calls a function before one of the syncs to come.
type tripwire struct {
	mu   sync.Mutex
	left int
	trip func()
}

// set has trip called before the nth sync from now; 0 is never.
func (t *tripwire) set(n int, trip func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.trip = n, trip
}

func (t *tripwire) tread() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left--; t.left == 0 {
		t.trip()
	}
}

func (w *world) close() error {
	err := w.node.end()
	w.up.close()
	return err
}

func (w *world) step(s step) string {
	violation := w.act(s)
	if violation == "" {
		violation = w.look()
	}
	return violation
}

func (w *world) act(s step) string {
	switch s.action {
	case put:
		return w.put(s)
	case remove:
		return w.remove(s.id)
	case get:
		return w.get(s.id)
	case insist:
		return w.get(s.id, "Cache-Control", "no-cache")
	case list:
		return w.list(s.id.Namespace)
	case wait:
		time.Sleep(s.duration)
	case become:
		w.up.become(s.fault, s.duration)
	case crash:
		return w.crash(w.clone(s))
	case crashIn:
		return w.crashIn(s)
	case restart:
		return w.restart()
	case forget:
		w.up.forget()
		for _, b := range w.beliefs {
			b.forgotten = true
		}
	case squeeze:
		w.squeeze(s.free)
	case flushAll:
		w.node.do(http.MethodPost, "/_botwired/flush?timeout="+s.duration.String(), "")
	}
	return ""
}

func (w *world) put(s step) string {
	r := w.node.do(http.MethodPut, path(s.id), `{"value":"`+s.value+`"}`)
	if w.full() && r.Code == http.StatusInsufficientStorage {
		return ""
	}
	if w.full() || r.Code != http.StatusOK {
		return fmt.Sprintf("PUT was answered %d: %s", r.Code, r.Body)
	}
	w.beliefs[s.id].become(state{true, s.value})
	return ""
}

func (w *world) remove(id journal.ID) string {
	b := w.beliefs[id]
	r := w.node.do(http.MethodDelete, path(id), "")
	switch {
	case w.full() && r.Code == http.StatusInsufficientStorage:
		return ""
	case r.Code == http.StatusOK && !w.full():
	case r.Code == http.StatusNotFound && b.allows(state{}):
	default:
		return fmt.Sprintf("DELETE was answered %d: %s, and it is %s", r.Code, r.Body, b.possible)
	}
	b.become(state{})
	return ""
}

func (w *world) get(id journal.ID, header ...string) string {
	r := w.node.do(http.MethodGet, path(id), "", header...)
	return w.judge(id, r.Code, r.Body.Bytes())
}

// judge holds an answer to a GET against what is possible.
func (w *world) judge(id journal.ID, code int, body []byte) string {
	b := w.beliefs[id]
	switch code {
	case http.StatusOK:
		var doc struct {
			Value     string
			UpdatedAt float64 `json:"updated_at"`
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			return fmt.Sprintf("GET %s was answered with %s", id, body)
		}
		if !b.allows(state{true, doc.Value}) {
			return fmt.Sprintf("GET %s was answered with %s, and it is %s", id, doc.Value, b.possible)
		}
		if doc.UpdatedAt < b.updatedAt {
			return fmt.Sprintf("contract 19: updated_at of %s went from %f back to %f", id, b.updatedAt, doc.UpdatedAt)
		}
		b.settleOn(state{true, doc.Value})
		b.updatedAt = doc.UpdatedAt
	case http.StatusNotFound:
		if !b.allows(state{}) {
			return fmt.Sprintf("GET %s was answered 404, and it is %s", id, b.possible)
		}
		b.become(state{})
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		known, err := w.node.journal.Lookup(id)
		if err != nil || known.Seq != 0 {
			return fmt.Sprintf("contract 6: GET %s was answered %d, and it is pending (%v)", id, code, err)
		}
	default:
		return fmt.Sprintf("GET %s was answered %d: %s", id, code, body)
	}
	return ""
}

// look reads every entry without letting upstream be waited for: what is known here
// must be right at all times.
func (w *world) look() string {
	for _, id := range entries {
		if violation := w.get(id, "Cache-Control", "only-if-cached"); violation != "" {
			return violation
		}
	}
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	if len(w.up.violations) > 0 {
		return w.up.violations[0]
	}
	return ""
}

func (w *world) list(namespace string) string {
	r := w.node.do(http.MethodGet, "/memory/"+namespace, "")
	if r.Code == http.StatusServiceUnavailable {
		return ""
	}
	var doc struct {
		Count int
		Keys  []struct {
			Key       string
			Bytes     int
			UpdatedAt float64 `json:"updated_at"`
		}
	}
	if err := json.Unmarshal(r.Body.Bytes(), &doc); r.Code != http.StatusOK || err != nil || doc.Count != len(doc.Keys) {
		return fmt.Sprintf("LIST was answered %d: %s", r.Code, r.Body)
	}
	listed := make(map[string]int)
	for i, k := range doc.Keys {
		listed[k.Key] = k.Bytes
		if i > 0 && k.UpdatedAt > doc.Keys[i-1].UpdatedAt {
			return fmt.Sprintf("contract 10: LIST is not newest first: %s", r.Body)
		}
	}
	for _, id := range entries {
		bytes, ok := listed[id.Key]
		if id.Namespace == namespace && !w.beliefs[id].allowsRow(ok, bytes) {
			return fmt.Sprintf("contract 10: LIST says %v (%d bytes) of %s, and it is %s", ok, bytes, id, w.beliefs[id].possible)
		}
	}
	return ""
}

// clone is the file system as a power cut would leave it now.
func (w *world) clone(s step) *vfs.MemFS {
	return w.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: s.percent, RNG: rand.New(rand.NewPCG(uint64(s.seed), 0)),
	})
}

// crash goes on from a clone of the file system.
func (w *world) crash(clone *vfs.MemFS) string {
	if err := w.node.end(); err != nil {
		return "ending: " + err.Error()
	}
	w.fs = clone
	if err := w.start(); err != nil {
		return "starting again: " + err.Error()
	}
	return ""
}

// crashIn crashes before one of the syncs that a put waits for. Whether the put is
// there afterwards is open: nobody was told.
func (w *world) crashIn(s step) string {
	var clone *vfs.MemFS
	w.tripwire.set(s.sync, func() {
		w.node.sever()
		clone = w.clone(s)
	})
	b := w.beliefs[s.id]
	before := *b
	violation := w.put(s)
	w.tripwire.set(0, nil)
	if violation != "" || clone == nil {
		return violation
	}
	*b = before
	b.possible = append(slices.Clone(b.possible), state{true, s.value})
	return w.crash(clone)
}

func (w *world) restart() string {
	if err := w.node.end(); err != nil {
		return "stopping: " + err.Error()
	}
	if err := w.start(); err != nil {
		return "starting again: " + err.Error()
	}
	return ""
}

// patience is how long after the last fault everything must have settled: a settle
// time and a watch as long, and the pauses before and between.
const patience = 10 * time.Minute

// converge heals upstream and expects both sides to come to hold the same
// (contract 18).
func (w *world) converge() string {
	w.up.become(healthy, 0)
	w.squeeze(roomy)
	for end := time.Now().Add(patience); w.node.journal.Stats().Pending > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			return fmt.Sprintf("contract 18: %s after upstream has recovered, pending: %+v", patience, w.node.journal.PendingList("", 10))
		}
	}
	time.Sleep(settleTime) // whatever is late has landed by now
	holds := w.up.snapshot()
	for _, id := range entries {
		value, ok := holds[id]
		if !w.beliefs[id].allows(state{ok, value}) {
			return fmt.Sprintf("contract 18: upstream holds %s of %s, and it is %s", state{ok, value}, id, w.beliefs[id].possible)
		}
		w.beliefs[id].settleOn(state{ok, value})
		if violation := w.get(id, "Cache-Control", "no-cache"); violation != "" {
			return violation
		}
	}
	return w.look()
}

func path(id journal.ID) string { return "/memory/" + id.Namespace + "/" + id.Key }

// become makes a state the only possible one: it was acknowledged.
func (b *belief) become(s state) {
	b.settleOn(s)
	b.forgotten = false
}

// settleOn makes a state the one that was seen.
func (b *belief) settleOn(s state) {
	b.possible = []state{s}
	if !s.present {
		b.updatedAt = 0
	}
}

func (b *belief) allows(s state) bool {
	return slices.Contains(b.possible, s) || (b.forgotten && !s.present)
}

// allowsRow is allows for what a listing shows.
func (b *belief) allowsRow(present bool, bytes int) bool {
	if b.forgotten && !present {
		return true
	}
	return slices.ContainsFunc(b.possible, func(s state) bool {
		return s.present == present && (!present || len(s.value) == bytes)
	})
}
