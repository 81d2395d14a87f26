package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// model is a simple model of a journal's contents.
type model struct {
	pending map[journal.ID]journal.Write
	settled map[journal.ID]string
	dead    map[uint64]journal.Write
	lost    map[uint64]journal.Write
	shown   []uint64            // the numbers of what upstream has shown
	listing []string            // nil before the first one
	sent    map[journal.ID]bool // the pending write may have been sent
	left    map[journal.ID][]journal.Content

	complete bool // the listing has all keys
}

// play is a journal and its model under random operations.
type play struct {
	t     *testing.T
	rng   *rand.Rand
	fs    *vfs.MemFS
	j     *journal.Journal
	model model
	log   []string
}

// After any sequence of operations and power cuts, the journal matches the model.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(40 / fewer) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			p := &play{
				t: t, rng: rand.New(rand.NewPCG(seed, 11)), fs: vfs.NewCrashableMem(),
				model: model{
					pending: make(map[journal.ID]journal.Write), settled: make(map[journal.ID]string),
					dead: make(map[uint64]journal.Write), lost: make(map[uint64]journal.Write), sent: make(map[journal.ID]bool), left: make(map[journal.ID][]journal.Content),
				},
			}
			p.j = open(t, p.fs)
			for range 120 {
				p.step()
				check(t, p.j)
			}
			p.compare()
			if t.Failed() {
				t.Log(p.log)
			}
		})
	}
}

func (p *play) step() {
	id := key("%d", p.rng.IntN(5))
	n := p.rng.IntN(100)
	p.log = append(p.log, fmt.Sprint(n, " ", id.Key))
	switch {
	case n < 30:
		p.write(put(p.t, p.j, id, fmt.Sprint("value ", len(p.log))))
	case n < 40:
		p.write(remove(p.t, p.j, id))
	case n < 60:
		p.settle(id)
	case n < 68:
		p.bury(id)
	case n < 76:
		p.fill(id)
	case n < 82:
		p.list()
	case n < 87:
		p.decide()
	case n < 91:
		p.lose(id)
	case n < 94:
		p.keepOverwritten(id)
	case n < 96:
		p.bound()
	default:
		p.crash()
	}
}

func (p *play) settle(id journal.ID) {
	w, ok, err := p.j.Newest(id)
	no(p.t, err)
	want, pending := p.model.pending[id]
	if ok != pending || w.Seq != want.Seq || w.Value != want.Value {
		p.t.Fatalf("Newest(%s) = %+v, want %+v", id, w, want)
	}
	if !ok {
		return
	}
	if p.rng.IntN(2) == 0 {
		sent(p.t, p.j, w)
		p.model.sent[id] = true
	}
	if p.rng.IntN(4) == 0 {
		return // there is no answer
	}
	overtaken := p.rng.IntN(3) == 0
	if overtaken {
		p.write(put(p.t, p.j, id, "overtakes"))
	} else {
		delete(p.model.pending, id)
	}
	if p.rng.IntN(4) == 0 {
		p.bound() // also the write's version goes, if it was overtaken
	}
	no(p.t, p.j.Settle(w))
	p.ended(id)
	p.settled(w)
}

// write takes the place of a pending write, which upstream may hold.
func (p *play) write(w journal.Write) {
	if old, ok := p.model.pending[w.ID]; ok {
		p.leave(old)
	}
	p.model.pending[w.ID], p.model.sent[w.ID] = w, false
}

// leave records that upstream may hold a write, if it was sent.
func (p *play) leave(w journal.Write) {
	c := journal.ContentOf(w.Op, w.Value)
	if p.model.sent[w.ID] {
		p.model.left[w.ID] = append(slices.DeleteFunc(p.model.left[w.ID], func(other journal.Content) bool { return other == c }), c)
	}
}

// ended records that upstream holds nothing of the older writes.
func (p *play) ended(id journal.ID) {
	delete(p.model.left, id)
	if _, waits := p.model.pending[id]; !waits {
		delete(p.model.sent, id)
	}
}

// bound removes the old versions: no answer changes.
func (p *play) bound() {
	shown, err := p.j.Shown()
	no(p.t, err)
	p.model.shown = append(p.model.shown, shown...)
	no(p.t, p.j.BoundHistory(1))
}

// settled updates the model after a confirmed write.
func (p *play) settled(w journal.Write) {
	p.row(w.Key, w.Op == journal.Put)
	if w.Op == journal.Delete {
		delete(p.model.settled, w.ID)
		return
	}
	p.model.settled[w.ID] = w.Value
}

// row updates the listing when an entry's state becomes known.
func (p *play) row(key string, present bool) {
	if i := slices.Index(p.model.listing, key); i >= 0 {
		p.model.listing = slices.Delete(p.model.listing, i, i+1)
	}
	if present && p.model.listing != nil {
		p.model.listing = append(p.model.listing, key)
	}
}

func (p *play) bury(id journal.ID) {
	w, ok := p.model.pending[id]
	if !ok {
		return
	}
	no(p.t, p.j.DeadLetter(w, journal.Failure{Status: 400, Reason: "bad"}))
	p.model.dead[w.Seq] = w
	if p.leave(w); len(p.model.left[id]) > 0 { // upstream may hold it, or an older one
		delete(p.model.settled, id)
		p.row(id.Key, false)
		p.model.complete = p.model.complete && p.model.listing == nil
	}
	delete(p.model.pending, id)
	delete(p.model.sent, id)
}

// lose makes another host's state beat an entry's write, or the one before.
func (p *play) lose(id journal.ID) {
	w, ok := p.model.pending[id]
	if !ok {
		return
	}
	overtaken := p.rng.IntN(3) == 0
	if overtaken {
		p.write(put(p.t, p.j, id, "overtakes"))
	}
	no(p.t, p.j.Fence.Lose(w, foreign("theirs", 20+float64(len(p.log))), "later"))
	p.ended(id)
	if overtaken {
		return // the newer write is compared with upstream separately
	}
	delete(p.model.pending, id)
	p.model.lost[w.Seq] = w
	p.model.settled[id] = "theirs"
	p.row(id.Key, true)
}

// keepOverwritten keeps another host's state, once.
func (p *play) keepOverwritten(id journal.ID) {
	w, ok := p.model.pending[id]
	if !ok {
		return
	}
	state := foreign(fmt.Sprint("state ", p.rng.IntN(3)), 20)
	no(p.t, p.j.Fence.KeepOverwritten(w.ID, state))
	for _, lost := range p.model.lost {
		if lost.ID == id && lost.Value == state.Value {
			return
		}
	}
	p.model.lost[p.j.Stats().LastSeq] = journal.Write{ID: id, Op: journal.Put, Value: state.Value}
}

func (p *play) fill(id journal.ID) {
	if _, pending := p.model.pending[id]; pending {
		return
	}
	if p.rng.IntN(3) == 0 {
		no(p.t, second(p.j.Fill(id, nil, always)))
		delete(p.model.settled, id)
		p.row(id.Key, false)
		return
	}
	o := observed("upstream's")
	o.UpdatedAt += float64(len(p.log)) // another host has written it just now
	no(p.t, second(p.j.Fill(id, o, always)))
	p.model.settled[id] = "upstream's"
	p.row(id.Key, true)
}

func (p *play) list() {
	fill := p.j.BeginListing("ns")
	p.model.listing = []string{"0", "elsewhere"}
	upstream := rows("0", "elsewhere")
	p.settle(key("%d", p.rng.IntN(5)))
	p.model.complete = p.rng.IntN(2) == 0
	no(p.t, fill.Commit(upstream, p.model.complete))
	for id := range p.model.settled {
		if p.model.complete && !slices.Contains(p.model.listing, id.Key) {
			delete(p.model.settled, id) // upstream has lost it
		}
	}
}

// decide retries or discards a dead letter, or one that does not exist.
func (p *play) decide() {
	seq := uint64(1_000_000)
	for s := range p.model.dead {
		seq = min(seq, s)
	}
	_, ok := p.model.dead[seq]
	var err error
	if p.rng.IntN(2) == 0 {
		err = p.j.Discard(seq)
	} else {
		var w journal.Write
		if w, err = p.j.Retry(seq, journal.AnyWrite); err == nil {
			p.write(w)
		}
	}
	if ok != (err == nil) || (!ok && !errors.Is(err, journal.ErrNoDeadLetter)) {
		p.t.Fatalf("dead letter %d: %v", seq, err)
	}
	delete(p.model.dead, seq)
}

func (p *play) crash() {
	last := p.j.Stats().LastSeq
	p.compare()
	no(p.t, p.j.Close())
	kept := p.rng.IntN(3) * 50
	p.fs = p.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: p.rng})
	p.j = reopen(p.t, p.fs)
	for id := range p.model.pending {
		p.model.sent[id] = true // perhaps
	}
	if p.rng.IntN(2) == 0 {
		no(p.t, p.j.Run(p.t.Context()))
	}
	if got := p.j.Stats().LastSeq; got != last {
		p.t.Fatalf("last sequence number is %d, was %d", got, last)
	}
	p.compare()
}

func (p *play) compare() {
	p.t.Helper()
	no(p.t, p.j.CheckReceipts(p.model.shown...))
	var want, got []string
	for i := range 5 {
		id := key("%d", i)
		state := lookup(p.t, p.j, id)
		got = append(got, fmt.Sprint(id.Key, state.Kind, state.Seq, state.Value))
		kind, value := journal.Unknown, p.model.settled[id]
		switch {
		case value != "":
			kind = journal.Settled
		case p.model.complete && !slices.Contains(p.model.listing, id.Key):
			kind = journal.Absent
		}
		w, pending := p.model.pending[id]
		if pending {
			kind, value = journal.Value, w.Value
			if w.Op == journal.Delete {
				kind = journal.Gone
			}
		}
		want = append(want, fmt.Sprint(id.Key, kind, w.Seq, value))
	}
	overlay, err := overlayOf(p.j, "ns")
	no(p.t, err)
	letters, err := p.j.DeadLetters(0, 1000)
	no(p.t, err)
	lost, err := p.j.History.Lost("", 0, 1<<20)
	no(p.t, err)
	for _, l := range lost {
		if was, ok := p.model.lost[l.Seq]; !ok || was.ID != l.ID || was.Op != l.Op {
			p.t.Errorf("%+v is lost: %v", l, ok)
		}
	}
	got = append(got, fmt.Sprint("pending ", len(overlay), " dead ", len(letters), " lost ", len(lost)))
	want = append(want, fmt.Sprint("pending ", len(p.model.pending), " dead ", len(p.model.dead), " lost ", len(p.model.lost)))
	for i := range 5 {
		id := key("%d", i)
		left, known, err := p.j.Left(journal.Write{ID: id})
		no(p.t, err)
		got, want = append(got, fmt.Sprint("left ", known, left)), append(want, fmt.Sprint("left ", true, p.model.left[id]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Fatalf("%s\n%v", diff, p.log)
	}
	if p.model.listing == nil {
		return
	}
	slices.Sort(p.model.listing)
	if diff := cmp.Diff(p.model.listing, listed(p.t, p.j)); diff != "" {
		p.t.Fatalf("%s\n%v", diff, p.log)
	}
}
