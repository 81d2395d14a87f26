package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
)

func (w *world) put(s step) string {
	w.node.makes(s.id, state{true, s.value})
	r := w.node.do(http.MethodPut, path(s.id), `{"value":"`+s.value+`"}`)
	if w.full() && r.Code == http.StatusInsufficientStorage {
		return ""
	}
	if w.full() || r.Code != http.StatusOK {
		return fmt.Sprintf("PUT was answered %d: %s", r.Code, r.Body)
	}
	return w.acknowledge(s.id, state{true, s.value})
}

// acknowledge takes in an acknowledged write. An older write may have lost against another host's in the
// same instant, before this one came.
func (w *world) acknowledge(id journal.ID, s state) string {
	if violation := w.burials(); violation != "" {
		return violation
	}
	b := w.beliefs[id]
	b.become(s)
	if b.written = 0; s.present {
		w.puts++
		b.written = w.puts
	}
	w.up.excuse(id)
	known, err := w.node.journal.Lookup(id)
	if err != nil {
		return "looking up: " + err.Error()
	}
	if known.Seq != 0 {
		w.acknowledged[known.Seq] = s
	}
	return ""
}

// ask makes a request that is not a PUT. Contract 9: the daemon answers it within the reader's patience,
// even if upstream never answers.
func (w *world) ask(method, path string, header ...string) (r *httptest.ResponseRecorder, violation string) {
	began := time.Now()
	r = w.node.do(method, path, "", header...)
	if took := time.Since(began); took > usual.patience {
		violation = fmt.Sprintf("contract 9: %s %s was answered after %s", method, path, took)
	}
	return r, violation
}

func (w *world) remove(id journal.ID) string {
	b := w.beliefs[id]
	w.node.makes(id, state{})
	r, violation := w.ask(http.MethodDelete, path(id))
	switch {
	case violation != "":
		return violation
	case w.full() && r.Code == http.StatusInsufficientStorage:
		return ""
	case r.Code == http.StatusForbidden: // upstream's: it was asked
		known, err := w.node.journal.Lookup(id)
		if err != nil || known.Kind != journal.Unknown && known.Kind != journal.Absent {
			return fmt.Sprintf("contract 11: DELETE %s was answered %d, and it is known (%v)", id, r.Code, err)
		}
		return ""
	case r.Code == http.StatusOK && !w.full():
	case r.Code == http.StatusNotFound && w.allowed(id, state{}):
		b.settleOn(state{})
		b.forgotten = false
		return ""
	default:
		return fmt.Sprintf("DELETE was answered %d: %s, and it is %s", r.Code, r.Body, b.all())
	}
	return w.acknowledge(id, state{})
}

// allowed reports whether an answer is possible, also by a dead letter that has just come.
func (w *world) allowed(id journal.ID, s state) bool {
	b := w.beliefs[id]
	return b.allows(s) || w.burials() == "" && b.allows(s)
}

func (w *world) get(id journal.ID, header ...string) string {
	r, violation := w.ask(http.MethodGet, path(id), header...)
	if violation != "" {
		return violation
	}
	return w.judge(id, r.Code, r.Body.Bytes())
}

// judge compares an answer to a GET with the possible states.
func (w *world) judge(id journal.ID, code int, body []byte) string {
	b := w.beliefs[id]
	burials := b.burials
	if violation := w.burials(); violation != "" {
		return violation
	}
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
			return fmt.Sprintf("GET %s was answered with %s, and it is %s", id, doc.Value, b.all())
		}
		if !w.setBack && doc.UpdatedAt < b.updatedAt {
			return fmt.Sprintf("contract 19: updated_at of %s went from %f back to %f", id, b.updatedAt, doc.UpdatedAt)
		}
		b.settleOn(state{true, doc.Value})
		b.shown = append(b.shown, doc.Value)
		if b.updatedAt = doc.UpdatedAt; b.burials > burials {
			b.updatedAt = 0 // perhaps the answer was made before the write died
		}
	case http.StatusNotFound:
		if !b.allows(state{}) {
			return fmt.Sprintf("GET %s was answered 404, and it is %s", id, b.all())
		}
		b.settleOn(state{})
		b.forgotten = false
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusForbidden, http.StatusTooManyRequests:
		known, err := w.node.journal.Lookup(id)
		if err != nil || known.Seq != 0 {
			return fmt.Sprintf("contract 6: GET %s was answered %d, and it is pending (%v)", id, code, err)
		}
	default:
		return fmt.Sprintf("GET %s was answered %d: %s", id, code, body)
	}
	return ""
}

// look reads every entry, and no read may wait for upstream: the daemon's own knowledge
// must be right at all times.
func (w *world) look() string {
	for _, id := range entries {
		if violation := w.get(id, "Cache-Control", "only-if-cached"); violation != "" {
			return violation
		}
	}
	if err := w.up.violation(); err != nil {
		return err.Error()
	}
	return ""
}

func (w *world) list(namespace string) string {
	r, violation := w.ask(http.MethodGet, "/memory/"+namespace)
	if violation != "" {
		return violation
	}
	switch r.Code {
	case http.StatusServiceUnavailable, http.StatusForbidden, http.StatusTooManyRequests:
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
	if violation := w.burials(); violation != "" {
		return violation
	}
	listed := make(map[string]int)
	var order []int // of the puts that the rows show, newest first
	for i, k := range doc.Keys {
		listed[k.Key] = k.Bytes
		if !slices.Contains(entries, journal.ID{Namespace: namespace, Key: k.Key}) {
			return fmt.Sprintf("LIST has an odd row: %s", r.Body)
		}
		if b := w.beliefs[journal.ID{Namespace: namespace, Key: k.Key}]; b != nil && b.written > 0 && !b.buried && !b.forgotten {
			order = append(order, -b.written)
		}
		if i > 0 && k.UpdatedAt > doc.Keys[i-1].UpdatedAt {
			return fmt.Sprintf("contract 10: LIST is not newest first: %s", r.Body)
		}
	}
	for _, id := range entries {
		bytes, ok := listed[id.Key]
		if id.Namespace == namespace && !w.beliefs[id].allowsRow(ok, bytes, func(value string) int { return w.up.veil.size(id, value) }) {
			return fmt.Sprintf("contract 10: LIST says %v (%d bytes) of %s, and it is %s", ok, bytes, id, w.beliefs[id].all())
		}
	}
	if !w.squeezed && !slices.IsSorted(order) { // without room, the daemon keeps no copies, and does not know
		return fmt.Sprintf("contract 10: LIST is not in the order of the writes, which is %v: %s", order, r.Body)
	}
	return ""
}

func path(id journal.ID) string { return "/memory/" + id.Namespace + "/" + id.Key }
