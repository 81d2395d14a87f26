package botwire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// maxReason bounds how much of an answer's text the reason of a failure keeps, in bytes.
const maxReason = 200

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) decode(doc any) bool { return json.Unmarshal(a.body, doc) == nil }

// fromService reports whether a memory service can have given the answer. A gateway or a
// portal on the way answers with a page.
func (a *answer) fromService() bool {
	var doc map[string]json.RawMessage
	return len(a.body) == 0 || a.decode(&doc)
}

// own reports whether the answer is in BotWire's own shape: a gateway's JSON has other
// fields.
func (a *answer) own() bool {
	var doc struct{ Detail json.RawMessage }
	return a.decode(&doc) && (doc.Detail != nil || a.status == http.StatusPaymentRequired)
}

// failure is the answer as an error.
func (a *answer) failure() *upstream.Error {
	return &upstream.Error{
		Verdict: a.classify(), Status: a.status, Reason: a.reason(),
		RetryAfter: retryAfter(a.header, time.Now()), Answer: a.forCallers(),
		Answered: a.own(),
	}
}

// reason is the answer for people, cut short: BotWire's detail if it has one.
func (a *answer) reason() string {
	var doc struct{ Detail json.RawMessage }
	text := ""
	if a.decode(&doc) && json.Unmarshal(doc.Detail, &text) != nil {
		text = validationErrors(doc.Detail)
	}
	return fmt.Sprintf("HTTP %d: %.*s", a.status, maxReason, cmp.Or(text, "an answer that is not BotWire's"))
}

// validationErrors puts the list of errors that BotWire's framework finds in a request
// into words; it is empty if detail is no such list. It leaves out the parts of the
// request that an error quotes: they may hold a value.
func validationErrors(detail json.RawMessage) string {
	var list []struct {
		Type, Msg string
		Loc       []any // names and positions
	}
	if json.Unmarshal(detail, &list) != nil {
		return ""
	}
	var texts []string
	for _, e := range list {
		var path []string
		for _, step := range e.Loc {
			path = append(path, fmt.Sprint(step))
		}
		text := e.Type
		if len(path) > 0 {
			text += " at " + strings.Join(path, ".")
		}
		if e.Msg != "" {
			text += ": " + e.Msg
		}
		if text = strings.TrimLeft(text, ": "); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// confirmsPut reports whether the answer is BotWire's own word that it holds the entry as
// it was sent.
func (a *answer) confirmsPut(id journal.ID) bool {
	var doc struct {
		Namespace, Key string
		Stored         bool
	}
	if !a.decode(&doc) {
		return false
	}
	named := doc.Namespace == id.Namespace && doc.Key == id.Key
	return a.status == http.StatusOK && named && doc.Stored
}

// confirmsDelete reports whether the answer is BotWire's own word that it does not hold
// the entry.
func (a *answer) confirmsDelete(id journal.ID) bool {
	if a.saysAbsent(id) {
		return true
	}
	var doc struct {
		Namespace, Key string
		Deleted        bool
	}
	return a.decode(&doc) && a.status == http.StatusOK && doc.Namespace == id.Namespace && doc.Key == id.Key && doc.Deleted
}

// saysAbsent reports whether the answer is BotWire's own 404 about the entry.
func (a *answer) saysAbsent(id journal.ID) bool {
	var doc struct{ Detail string }
	ok := a.decode(&doc)
	return ok && a.status == http.StatusNotFound && doc.Detail == wire.NotFoundDetail(id.Namespace, id.Key)
}
