package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// orderLife is a namespace that agents here and other hosts write, and the rules for its listing.
type orderLife struct {
	*testing.T
	s        *sidecar
	rng      *rand.Rand
	skew     time.Duration // how far upstream's clock is ahead
	together int           // writes that upstream confirms at one time, in any order
	others   bool          // other hosts write too
	mine     []string      // keys whose newest write is from here, in the order of the writes
	steps    []string
}

func (l *orderLife) note(format string, args ...any) {
	l.steps = append(l.steps, fmt.Sprintf(format, args...))
}

func (l *orderLife) notMine(key string) {
	l.mine = slices.DeleteFunc(l.mine, func(k string) bool { return k == key })
}

// setClock sets upstream's clock for its next write.
func (l *orderLife) setClock() {
	u := l.s.upstream
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clock = max(u.clock, float64(time.Now().Add(l.skew).UnixMicro())/1e6-1)
}

func (l *orderLife) settleSome() {
	waiting := l.s.journal.PendingList("n", 1000)
	for range min(len(waiting), 1+l.rng.IntN(l.together)) {
		l.setClock()
		if p := waiting[l.rng.IntN(len(waiting))]; l.s.flusher.settle(p.ID) {
			l.note("settle %s", p.Key)
		}
	}
}

// listMeanwhile lists the namespace again, and calls do after upstream has made its answer and before it
// gives it.
func (l *orderLife) listMeanwhile(do func()) {
	questions := l.s.upstream.hold()
	reader := l.s.begin(http.MethodGet, "/memory/n", "", "Cache-Control", "no-cache")
	for {
		q := <-questions
		if q.ID.Key == "" {
			l.s.upstream.release()
			do()
			close(q.answer)
			break
		}
		close(q.answer) // a copy is revalidated in the background
	}
	l.check(<-reader)
}

// step takes one random step.
func (l *orderLife) step() {
	at := id("n", fmt.Sprint("k", l.rng.IntN(12)))
	switch n := l.rng.IntN(21); {
	case n < 8:
		l.note("put %s", at.Key)
		l.s.put(at, fmt.Sprint("value ", l.rng.IntN(200)))
		l.notMine(at.Key)
		l.mine = append(l.mine, at.Key)
	case n < 9:
		l.note("delete %s", at.Key)
		l.s.do(http.MethodDelete, "/memory/n/"+at.Key, "")
		l.notMine(at.Key)
	case n < 15:
		l.settleSome()
	case n < 17:
		l.note("read %s", at.Key)
		l.s.get("/memory/n/"+at.Key, "Cache-Control", "no-cache")
	case n < 19:
		l.note("list anew")
		l.check(l.s.get("/memory/n", "Cache-Control", "no-cache"))
	case n < 20:
		l.note("list anew, and meanwhile")
		l.listMeanwhile(l.settleSome)
	case l.others:
		l.note("another host puts %s", at.Key)
		l.setClock()
		l.s.upstream.set(at, fmt.Sprint("their value ", l.rng.IntN(200)))
		l.notMine(at.Key)
	}
	time.Sleep(time.Duration(l.rng.IntN(3000)) * time.Millisecond)
	l.check(l.s.get("/memory/n"))
}

// check checks a listing: the writes from here are in order, and so are the times.
func (l *orderLife) check(w *httptest.ResponseRecorder) {
	l.Helper()
	wantStatus(l.T, w, http.StatusOK)
	var doc listDocument
	decode(l.T, w, &doc)
	var got []string
	for i, k := range doc.Keys {
		if i > 0 && k.UpdatedAt > doc.Keys[i-1].UpdatedAt {
			l.fail("%s is newer than %s before it", k.Key, doc.Keys[i-1].Key)
		}
		if slices.Contains(l.mine, k.Key) {
			got = append(got, k.Key)
		}
	}
	want := slices.Clone(l.mine)
	slices.Reverse(want)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		l.fail("writes from here, newest first (-want +got):\n%s", diff)
	}
}

func (l *orderLife) fail(format string, args ...any) {
	l.Helper()
	l.Fatalf("%s\nafter: %s", fmt.Sprintf(format, args...), strings.Join(l.steps, ", "))
}

// Contract 10: a listing keeps the order of the writes made here. Neither upstream's clock, nor the order in
// which writes reach upstream, nor fetching the listing again changes it.
func TestAListingKeepsTheOrderOfTheWrites(t *testing.T) {
	for name, life := range map[string]orderLife{
		"alone":               {together: 6},
		"upstream is ahead":   {together: 6, skew: time.Hour},
		"upstream is behind":  {together: 6, skew: -time.Hour},
		"beside others":       {together: 1, others: true},
		"others are ahead":    {together: 6, others: true, skew: time.Minute},
		"others are behind":   {together: 6, others: true, skew: -time.Minute},
		"others at all times": {together: 6, others: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(6) {
				inBubble(t, func(t *testing.T, s *sidecar) {
					l := life
					l.T, l.s, l.rng = t, s, rand.New(rand.NewPCG(seed, 1))
					for range 150 {
						l.step()
					}
				})
			}
		})
	}
}

// In a namespace's first listing, settled writes are in order too.
func TestTheFirstListingKeepsTheOrderOfTheWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		l := &orderLife{T: t, s: s}
		anew := func() *httptest.ResponseRecorder { return s.get("/memory/n?limit=500", "Cache-Control", "no-cache") }
		var want []string
		for i := range 105 {
			s.put(id("n", fmt.Sprint(i)), "v")
			want = append(want, fmt.Sprint(i))
		}
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(105) {
			l.setClock()
			s.settle(id("n", fmt.Sprint(i)))
		}
		s.put(id("n", "7"), "again")
		want = append(slices.Delete(want, 7, 8), "7")
		slices.Reverse(want)
		wantKeys(t, anew(), want...)
		s.settle(id("n", "7"))
		wantKeys(t, anew(), want...)
		s.upstream.set(id("n", "50"), "another host's")
		want = append([]string{"50"}, slices.DeleteFunc(want, func(k string) bool { return k == "50" })...)
		wantKeys(t, anew(), want...)
	})
}
