package memory

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// Readers can join a request upstream until its answer is accepted. A later reader may have seen a newer
// value.
func TestAnAnswerThatHasBeenTakenIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(_ *journal.Options, o *Options) {
			o.Policy = func(string) cache.Policy { return cache.Policy{StaleIfError: cache.Forever} }
		})
		r.upstream.set(id("n", "k"), "v")
		begin := func(from resource) <-chan singleflight.Result { return r.fetches.begin(from, false) }
		from := &entry{m: r.Memory, id: id("n", "k")}
		later := make(chan struct{})
		r.upstream.held = make(chan chan struct{})
		first := begin(delayed{from, later})
		close(<-r.upstream.held)
		<-later // the first is about to be accepted
		second := begin(from)
		close(<-r.upstream.held) // so the second asks again
		<-second
		later <- struct{}{}
		<-first
	})
}

// A write that came between the reader's look and the request upstream is the answer.
func TestAWriteSinceTheReaderLookedIsTheAnswer(t *testing.T) {
	r := newRig(t)
	k := id("n", "k")
	r.upstream.set(k, "theirs")
	looked := r.cache.Generation(entryKey(k))
	r.put(k, "mine")
	got, err := r.fetches.wait(&entry{m: r.Memory, id: k, known: known{generation: looked}}, true, time.Minute)
	if err != nil || !got.overtaken || !strings.Contains(string(got.item(entryKey(k)).Body), `"mine"`) {
		t.Errorf("%+v, %v", got, err)
	}
	if n := r.upstream.asked.Load(); n != 0 {
		t.Errorf("upstream is asked %d times", n)
	}
}

// However many callers take a stale copy, upstream is asked for it once a second while it fails to answer, and the entry's
// readers get its answer soon after it is back.
func TestAFailedRefreshRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		k := id("n", "k")
		r.upstream.set(k, "old")
		r.wantValue(k, "old")
		time.Sleep(usual.FreshFor + time.Second)
		r.upstream.set(k, "new")
		r.upstream.fails.Store(true)
		before := r.upstream.asked.Load()
		read := func(during time.Duration) {
			for until := time.Now().Add(during); time.Now().Before(until); time.Sleep(time.Millisecond) {
				if _, err := r.Do(t.Context(), &Request{Verb: GetEntry, ID: k, Directives: AnyAge}); err != nil {
					t.Fatal(err)
				}
			}
		}
		read(20 * time.Second)
		if n := r.upstream.asked.Load() - before; n < 19 || n > 20 {
			t.Errorf("in 20 s, upstream is asked %d times", n)
		}
		r.upstream.fails.Store(false)
		read(restAfter + 2*time.Millisecond)
		r.wantValue(k, "new")
	})
}

// delayed stops just before its answer is accepted.
type delayed struct {
	*entry
	later chan struct{}
}

func (d delayed) ask(ctx context.Context, waitOutOutage bool) (func() (fetched, error), error) {
	accept, err := d.entry.ask(ctx, waitOutOutage)
	return func() (fetched, error) {
		d.later <- struct{}{}
		<-d.later
		return accept()
	}, err
}
