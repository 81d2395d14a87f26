package flush_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/limit"
	"github.com/botwired/botwired/upstream/quota"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The settings of a rig: the defaults of docs/settings.md.
const (
	linger         = 100 * time.Millisecond
	timeout        = 10 * time.Second
	lateWindow     = 30 * time.Second
	backoffInitial = 200 * time.Millisecond
	backoffMax     = 30 * time.Second
	concurrency    = 16
	mostWrites     = 14 // of concurrency; the others are reserved for reads
	diskReserve    = 64 << 20
)

// rig is a flusher on a real journal and a fake upstream, in a synctest bubble.
type rig struct {
	*fake
	t       testing.TB
	fs      vfs.FS
	journal *journal.Journal
	client  *botwire.Client
	flusher *flush.Flusher
	health  *upstream.Health
	slots   *limit.Slots
	linger  atomic.Int64 // in nanoseconds
	settled []uint64     // writes passed to OnSettled, to be read after stop
	log     *logged
	quota   func(namespace string) quota.Limit // nil: there are none
	quotas  *quota.Quotas
	fenced  string // the host's name if it has fences; otherwise empty
	// forgetful makes the journal hide what was sent before it was opened.
	forgetful bool
	fences    map[string]int // number by outcome, to be read after stop
	asked     int            // number of their requests
	// openRig applies these; each may be nil.
	adjust  func(*flush.Options)
	changed func(journal.Change) // called for each change, after the flusher
	onState func(upstream.Report)
	stop    func() // idempotent; like a shutdown without a drain
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newRig(t, newFake(t), vfs.NewMem()))
	})
}

// newRig opens a journal on fs and flushes it to f.
func newRig(t testing.TB, f *fake, fs vfs.FS) *rig {
	t.Helper()
	return newRigWithin(t, f, fs, nil)
}

// newRigWithin does the same as newRig, with quotas.
func newRigWithin(t testing.TB, f *fake, fs vfs.FS, allowed func(string) quota.Limit, change ...func(*journal.Options)) *rig {
	t.Helper()
	return openRig(&rig{fake: f, t: t, fs: fs, quota: allowed}, change...)
}

// newFencedRig does the same as newRig for one of several hosts, with fences.
func newFencedRig(t testing.TB, f *fake, fs vfs.FS, host string) *rig {
	t.Helper()
	return openRig(&rig{fake: f, t: t, fs: fs, fenced: host})
}

func openRig(r *rig, change ...func(*journal.Options)) *rig {
	t, f, fs, allowed := r.t, r.fake, r.fs, r.quota
	t.Helper()
	r.fences = make(map[string]int)
	r.client = f.clientOf(cmp.Or(r.fenced, "upstream.test"), timeout)
	r.slots, r.log = limit.NewSlots(concurrency), &logged{}
	r.linger.Store(int64(linger))
	var mu sync.Mutex // for settled: writes settle concurrently
	var err error
	opts := journal.Options{
		Dir: "journal", FS: fs, DiskReserve: diskReserve,
		Fatal:     func(err error) { t.Errorf("the journal failed: %v", err) },
		BootClock: func() (string, time.Duration) { return "boot", time.Since(time.Unix(0, 0)) },
	}
	for _, c := range change {
		c(&opts)
	}
	r.journal, err = journal.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	r.health = upstream.NewHealth(upstream.HealthOptions{
		BackoffInitial: backoffInitial, BackoffMax: backoffMax, Logger: logger,
		OnState: func(now upstream.Report) {
			if r.onState != nil {
				r.onState(now)
			}
		},
	})
	if allowed != nil {
		ledger := quota.OpenLedger("journal.quota", fs, slog.New(slog.DiscardHandler))
		r.quotas = quota.New(quota.Options{Of: allowed, Ledger: ledger, Logger: logger})
	}
	flushing := flush.Options{
		Journal: r.journal, Engine: r.client, Health: r.health, Quotas: r.quotas, Linger: func(string) time.Duration { return time.Duration(r.linger.Load()) },
		Slots: r.slots, LateWindow: lateWindow, Timeout: timeout, BackoffInitial: backoffInitial, BackoffMax: backoffMax,
		OnSettled: func(w journal.Write) {
			mu.Lock()
			defer mu.Unlock()
			r.settled = append(r.settled, w.Seq)
		},
		Logger: logger,
	}
	if r.forgetful {
		flushing.Journal = forgetful{r.journal}
	}
	if r.fenced != "" {
		flushing.FenceJournal = r.journal.Fence
		flushing.OnFence = func(outcome string, requests int) {
			mu.Lock()
			defer mu.Unlock()
			r.fences[outcome]++
			r.asked += requests
		}
	}
	if r.adjust != nil {
		r.adjust(&flushing)
	}
	r.flusher = flush.New(flushing)
	r.journal.Subscribe(func(c journal.Change) {
		r.flusher.Changed(c)
		if r.changed != nil {
			r.changed(c)
		}
	})
	r.run()
	return r
}

// logged is the log of a flusher and of the health.
type logged struct {
	stall func(line string) // called before a line is stored; may be nil
	mu    sync.Mutex
	text  strings.Builder
}

func (l *logged) Write(line []byte) (int, error) {
	if l.stall != nil {
		l.stall(string(line))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns the log since the last call.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	l.text.Reset()
	return text
}

// lines counts the lines that contain part.
func (l *logged) lines(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.journal.Run(ctx); err != nil {
			r.t.Errorf("rebuilding: %v", err)
		}
	})
	wg.Go(func() {
		if err := r.flusher.Run(ctx); err != nil {
			r.t.Errorf("flushing: %v", err)
		}
	})
	r.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if r.quotas != nil {
			if err := r.quotas.Close(); err != nil {
				r.t.Errorf("closing the quotas: %v", err)
			}
		}
		if err := r.journal.Close(); err != nil {
			r.t.Errorf("closing the journal: %v", err)
		}
	})
	r.t.Cleanup(func() { r.stop() })
}

// reopen stops the rig and starts another on the same disk.
func (r *rig) reopen() *rig {
	r.t.Helper()
	r.stop()
	return openRig(&rig{fake: r.fake, t: r.t, fs: r.fs, quota: r.quota, fenced: r.fenced})
}

func (r *rig) put(id journal.ID, value string) journal.Write {
	r.t.Helper()
	return r.append(journal.NewWrite{ID: id, Op: journal.Put, Value: value, ListBytes: len(value)})
}

// putMany writes n entries of a namespace, one after the other, with the keys "0" to n-1.
func (r *rig) putMany(namespace string, n int) {
	r.t.Helper()
	for i := range n {
		r.put(journal.ID{Namespace: namespace, Key: fmt.Sprint(i)}, "v")
	}
}

func (r *rig) del(id journal.ID) journal.Write {
	r.t.Helper()
	return r.append(journal.NewWrite{ID: id, Op: journal.Delete})
}

func (r *rig) append(w journal.NewWrite) journal.Write {
	r.t.Helper()
	written, err := r.journal.Append(w)
	if err != nil {
		r.t.Fatal(err)
	}
	return written
}

func (r *rig) pending() int {
	<-r.journal.Rebuilt()
	return r.journal.Stats().Pending
}

// settleWithin lets virtual time pass until nothing is pending.
func (r *rig) settleWithin(d time.Duration) {
	r.t.Helper()
	r.within(d, "nothing is pending", func() bool { return r.pending() == 0 })
	synctest.Wait() // the flusher has logged and told what it has settled
}

// within lets virtual time pass until is returns true.
func (r *rig) within(d time.Duration, what string, is func() bool) {
	r.t.Helper()
	step := max(10*time.Millisecond, d/10000)
	for end := time.Now().Add(d); !is(); time.Sleep(step) {
		if time.Now().After(end) {
			r.t.Fatalf("not within %v: %s (pending: %v)", d, what, r.left())
		}
	}
}

func (r *rig) left() string {
	var out string
	for _, p := range r.journal.PendingList("", 5) {
		count, last, next := r.flusher.Attempts(p.ID)
		out += fmt.Sprintf(" %s: %d attempts, %q, next %v", p.ID, count, last, next)
	}
	return out
}

func (r *rig) wantHeld(id journal.ID, want string) {
	r.t.Helper()
	if got, ok := r.holds(id); !ok || got != want {
		r.t.Errorf("upstream holds %q (%v) for %s, want %q", got, ok, id, want)
	}
}

func key(k string) journal.ID { return journal.ID{Namespace: "ns", Key: k} }
