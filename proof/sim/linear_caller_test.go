package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
)

// caller is an agent: one call after the other.
type caller struct {
	crowd  *crowd
	number int
	rng    *rand.Rand
	shown  map[journal.ID]shown
	last   map[journal.ID]numbered // the caller's last put
	letter map[journal.ID]numbered // and the last that it has dropped
}

// numbered is the value of a write or of a dead letter, and its number.
type numbered struct{ number, value string }

// shown is a state that a caller has seen, and its tag.
type shown struct{ tag, value string }

func newCaller(c *crowd, number int, stream uint64) *caller {
	return &caller{c, number, rand.New(rand.NewPCG(c.plan.seed, stream)), make(map[journal.ID]shown), make(map[journal.ID]numbered), make(map[journal.ID]numbered)}
}

func (c *crowd) call(number int) {
	a := newCaller(c, number, uint64(number)+10)
	deck := []action{put, put, put, remove, remove, get, get, get, get, list}
	if !c.plan.through {
		deck = append(deck, undo, drop, retry, bringBack)
		if !c.plan.virtual { // it replaces the log with Pebble's mutex held, as a start does: see life.disk
			deck = append(deck, purge)
		}
	}
	if c.plan.others {
		deck = append(deck, foreign, foreign)
	}
	if c.plan.loses {
		deck = append(deck, lose, restore)
	}
	// Most callers work on one entry, so that they meet.
	ids := []journal.ID{entries[0], entries[0], entries[0], entries[1], entries[2]}
	for n := range c.plan.calls {
		if a.rng.IntN(20) == 0 {
			c.turn(a.rng)
		}
		// In a listing, values mostly differ by their sizes.
		value := fmt.Sprintf("canary-%d-%d%s", number, n, strings.Repeat(".", (number*c.plan.calls+n)%61))
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
	o := operation{id: id, caller: a.number, did: did, value: value, sure: a.crowd.plan.fair, through: a.crowd.plan.through, restored: a.crowd.plan.loses, life: l}
	if did == list {
		o.limit = []int{1, len(entries), len(entries)}[a.rng.IntN(3)]
	}
	switch did {
	case foreign:
		a.crowd.writesElsewhere(o, a.rng.IntN(4) == 0)
		return true
	case lose:
		a.crowd.loses(id)
		return true
	case bringBack:
		if o.wanted = a.pick(l.node, id); o.wanted == 0 {
			return true
		}
	case restore, purge:
		if a.crowd.plan.loses {
			if !a.crowd.restoring.TryLock() { // a goroutine that waits for a mutex stops virtual time
				return true
			}
			defer a.crowd.restoring.Unlock()
		}
	case put, remove:
		o.wants, o.expected = a.condition(id)
	case drop:
		if o.value = a.last[id].value; a.last[id].number == "" {
			return true
		}
	case retry:
		if o.redone = (state{true, a.letter[id].value}); a.letter[id].number == "" {
			return true
		}
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
	case undo:
		return n.do(http.MethodPost, a.surface("undo", o.id), "")
	case bringBack:
		return n.do(http.MethodPost, fmt.Sprintf("%s&to=%d", a.surface("undo", o.id), o.wanted), "")
	case restore:
		return n.do(http.MethodPost, "/_botwired/restore?namespace="+o.id.Namespace+"&timeout=100ms", "")
	case drop:
		return n.do(http.MethodPost, a.surface("pending/drop", o.id)+"&seq="+a.last[o.id].number, "")
	case retry:
		return n.do(http.MethodPost, "/_botwired/dead-letters/"+a.letter[o.id].number+"/retry", "")
	case purge:
		return n.do(http.MethodPost, a.surface("purge", o.id)+"&timeout=1s", "")
	case list:
		return n.do(http.MethodGet, fmt.Sprintf("/memory/%s?limit=%d", o.id.Namespace, o.limit), "", a.directive()...)
	}
	return n.do(http.MethodGet, path(o.id), "", a.directive()...)
}

func (*caller) surface(path string, id journal.ID) string {
	return fmt.Sprintf("/_botwired/%s?namespace=%s&key=%s", path, id.Namespace, id.Key)
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
		_, number, _ := strings.Cut(r.Header().Get("Botwired-Write"), "seq=")
		if o.life.serving.Load() { // otherwise another write may get the number in the next life
			a.last[o.id] = numbered{number, o.value}
		}
	case o.did == restore: // nobody sees anything of it
		if r.Code == http.StatusBadRequest || r.Code == http.StatusNotFound || r.Code == http.StatusInternalServerError {
			a.crowd.complain("a restore of %s was answered %d: %s", o.id.Namespace, r.Code, r.Body)
		}
		return
	case o.did == purge:
		if o.code = r.Code; r.Code >= http.StatusInternalServerError {
			o.code = 0 // its delete may have been made
		}
	case o.did == undo || o.did == bringBack || o.did == drop || o.did == retry:
		if !a.correct(&o, r) {
			return
		}
	case o.through && r.Code == http.StatusGatewayTimeout && (o.did == put || o.did == remove):
		o.code = http.StatusOK // it is durable here
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

// pick returns the number of a version, of one that is lost if there is any; 0 if there is none.
func (a *caller) pick(n *node, id journal.ID) (number uint64) {
	var doc api.Revisions
	r := n.do(http.MethodGet, a.surface("revisions", id), "")
	if r.Code == http.StatusNotFound || r.Code == http.StatusServiceUnavailable {
		return 0
	}
	if err := json.Unmarshal(r.Body.Bytes(), &doc); r.Code != http.StatusOK || err != nil {
		a.crowd.complain("the revisions of %s were answered %d: %s", id, r.Code, r.Body)
		return 0
	}
	var all, lost []uint64
	for _, v := range doc.Revisions {
		if v.Revision == nil {
			continue
		}
		if all = append(all, *v.Revision); v.State == "lost" {
			lost = append(lost, *v.Revision)
		}
	}
	if len(lost) > 0 {
		all = lost
	}
	if len(all) == 0 {
		return 0
	}
	return all[a.rng.IntN(len(all))]
}

// correct completes an undo, a drop or a retry by its answer. It returns false if nothing was done.
func (a *caller) correct(o *operation, r *httptest.ResponseRecorder) bool {
	switch {
	case o.did == drop && r.Code == http.StatusGatewayTimeout:
		o.code = 0
		return true
	case r.Code == http.StatusNotFound, r.Code == http.StatusConflict, r.Code >= http.StatusInternalServerError,
		r.Code == http.StatusForbidden, r.Code == http.StatusTooManyRequests:
		return false
	case r.Code != http.StatusOK:
		a.crowd.complain("%s of %s was answered %d: %s", o.did, o.id, r.Code, r.Body)
		return false
	}
	switch o.did {
	case undo, bringBack:
		var doc api.Undone
		if err := json.Unmarshal(r.Body.Bytes(), &doc); err != nil {
			a.crowd.complain("undo of %s was answered with %s", o.id, r.Body)
		}
		o.undone, o.redone = state{doc.Undone.Value != nil, doc.Undone.Text()}, state{doc.Now.Value != nil, doc.Now.Text()}
		if o.did == bringBack && (doc.Now.Revision == nil || *doc.Now.Revision != o.wanted) {
			a.crowd.complain("undo of %s to %d was answered with %s", o.id, o.wanted, r.Body)
		}
	case drop:
		var doc api.Dropped
		if err := json.Unmarshal(r.Body.Bytes(), &doc); err != nil {
			a.crowd.complain("drop of %s was answered with %s", o.id, r.Body)
		}
		if o.life.serving.Load() {
			a.letter[o.id] = numbered{doc.ID, a.last[o.id].value}
		}
	}
	return true
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
	if a.crowd.plan.others { // a list may show another host's write, and a read the copy of before, as upstream does not answer
		return
	}
	for _, id := range entries {
		if id.Namespace != o.id.Namespace {
			continue
		}
		row := o
		row.id, row.bytes, row.veil = id, -1, a.crowd.up.veil
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
