package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/botwired/botwired/journal"
)

// caller is an agent: one call after the other.
type caller struct {
	crowd  *crowd
	number int
	rng    *rand.Rand
	shown  map[journal.ID]shown
}

// shown is a state that a caller has seen, and its tag.
type shown struct{ tag, value string }

func newCaller(c *crowd, number int, stream uint64) *caller {
	return &caller{c, number, rand.New(rand.NewPCG(c.plan.seed, stream)), make(map[journal.ID]shown)}
}

func (c *crowd) call(number int) {
	a := newCaller(c, number, uint64(number)+10)
	deck := []action{put, put, put, remove, remove, get, get, get, get, list}
	// Most callers work on one entry, so that they meet.
	ids := []journal.ID{entries[0], entries[0], entries[0], entries[1], entries[2]}
	for n := range c.plan.calls {
		if a.rng.IntN(20) == 0 {
			c.turn(a.rng)
		}
		// In a listing, values mostly differ by their sizes.
		value := fmt.Sprintf("v%d-%d%s", number, n, strings.Repeat(".", (number*c.plan.calls+n)%61))
		if !a.do(deck[a.rng.IntN(len(deck))], ids[a.rng.IntN(len(ids))], value) {
			return
		}
		if c.plan.virtual {
			time.Sleep(thinks[a.rng.IntN(len(thinks))])
		}
	}
}

// do makes a call and records it. It returns false when there will be no daemon any more.
func (a *caller) do(did action, id journal.ID, value string) bool {
	l := a.crowd.enter()
	if l == nil {
		return false
	}
	defer l.callers.Done()
	o := operation{id: id, caller: a.number, did: did, value: value, sure: a.crowd.plan.fair, through: a.crowd.plan.through, life: l}
	if did == list {
		o.limit = []int{1, len(entries), len(entries)}[a.rng.IntN(3)]
	}
	if did == put || did == remove {
		o.wants, o.expected = a.condition(id)
	}
	began := time.Now()
	o.call = a.crowd.history.tick()
	r := a.request(l.node, o)
	o.answer = a.crowd.history.tick()
	if !a.crowd.plan.virtual && time.Since(began) >= leastPatience && !l.node.isSevered() {
		a.crowd.history.busy.Store(true)
	}
	l.called()
	a.record(o, r)
	return true
}

// condition draws the condition of a write. A caller compares with what it saw last.
func (a *caller) condition(id journal.ID) (wants wish, expected shown) {
	switch last, ok := a.shown[id]; a.rng.IntN(4) {
	case 0:
		return wantsNone, shown{}
	case 1:
		if ok {
			return wantsSame, last
		}
	case 2:
		if ok {
			return wantsOther, last
		}
	}
	return wantsNothing, shown{}
}

// header is the condition of a write on the wire.
func (o operation) header() []string {
	switch o.wants {
	case wantsNone:
		return []string{"If-None-Match", "*"}
	case wantsSame:
		return []string{"If-Match", o.expected.tag}
	case wantsOther:
		return []string{"If-None-Match", o.expected.tag}
	}
	return nil
}

// request makes the call.
func (a *caller) request(n *node, o operation) *httptest.ResponseRecorder {
	switch o.did {
	case put:
		return n.do(http.MethodPut, path(o.id), `{"value":"`+o.value+`"}`, o.header()...)
	case remove:
		return n.do(http.MethodDelete, path(o.id), "", o.header()...)
	case list:
		return n.do(http.MethodGet, fmt.Sprintf("/memory/%s?limit=%d", o.id.Namespace, o.limit), "", a.directive()...)
	}
	return n.do(http.MethodGet, path(o.id), "", a.directive()...)
}

// directive returns a read's Cache-Control: mostly none.
func (a *caller) directive() []string {
	switch a.rng.IntN(6) {
	case 0:
		return []string{"Cache-Control", "no-cache"}
	case 1:
		return []string{"Cache-Control", "only-if-cached"}
	}
	return nil
}

// record adds the answer to the history, if it says something.
func (a *caller) record(o operation, r *httptest.ResponseRecorder) {
	o.code = r.Code
	switch {
	case r.Code == http.StatusOK && o.did == list:
		a.recordList(o, r.Body.Bytes())
		return
	case r.Code == http.StatusOK && o.did == get:
		var doc struct{ Value string }
		if err := json.Unmarshal(r.Body.Bytes(), &doc); err != nil {
			a.crowd.complain("GET %s was answered with %s", o.id, r.Body)
		}
		o.saw = doc.Value
		a.remember(o, shown{r.Header().Get("ETag"), doc.Value})
	case r.Code == http.StatusOK && o.did == put:
		a.remember(o, shown{r.Header().Get("ETag"), o.value})
	case o.through && (r.Code == http.StatusBadGateway || r.Code == http.StatusGatewayTimeout) && (o.did == put || o.did == remove):
		o.code, o.answer = 0, math.MaxInt64 // it may land yet
	case o.through && (r.Code == http.StatusForbidden || r.Code == http.StatusTooManyRequests || r.Code == http.StatusServiceUnavailable) &&
		(o.did == put || o.did == remove):
		return // nothing was done
	case r.Code == http.StatusPreconditionFailed && o.wants != wantsNothing:
	case r.Code == http.StatusOK, r.Code == http.StatusNotFound && (o.did == get || o.did == remove):
	case (r.Code == http.StatusGatewayTimeout || r.Code == http.StatusForbidden || r.Code == http.StatusTooManyRequests) &&
		(o.did == get || o.did == list):
		return
	case r.Code == http.StatusForbidden && o.did == remove,
		(r.Code == http.StatusForbidden || r.Code == http.StatusTooManyRequests) && o.wants != wantsNothing:
		return // upstream was asked, and nothing is done
	case r.Code == http.StatusServiceUnavailable && (o.did == get || o.did == list || o.wants != wantsNothing):
	default:
		a.crowd.complain("%s %s was answered %d: %s", o.did, o.id, r.Code, r.Body)
		return
	}
	a.crowd.history.add(o)
}

// remember keeps what an answer has shown, unless the answer reached nobody: upstream may hold
// a value of a life that crashed, and the next life does not know which write it is.
func (a *caller) remember(o operation, saw shown) {
	if o.life.serving.Load() {
		a.shown[o.id] = saw
	}
}

// recordList records a listing as a read of each entry of the namespace, except those
// that may have had no room in it.
func (a *caller) recordList(o operation, body []byte) {
	var doc struct {
		Keys []struct {
			Key   string
			Bytes int
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil || len(doc.Keys) > o.limit {
		a.crowd.complain("LIST of at most %d was answered with %s", o.limit, body)
		return
	}
	for _, id := range entries {
		if id.Namespace != o.id.Namespace {
			continue
		}
		row := o
		row.id, row.bytes = id, -1
		for _, k := range doc.Keys {
			if k.Key == id.Key {
				row.bytes = k.Bytes
			}
		}
		if row.bytes >= 0 || len(doc.Keys) < o.limit {
			a.crowd.history.add(row)
		}
	}
}
