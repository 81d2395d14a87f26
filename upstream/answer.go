package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// maxReason bounds what is kept of an answer's text as the reason of a failure.
const maxReason = 200

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) decode(doc any) bool { return json.Unmarshal(a.body, doc) == nil }

// ofService reports whether a refusal may be a memory service's own word. What comes
// from a gateway or a portal on the way is a page.
func (a *answer) ofService() bool {
	var doc map[string]json.RawMessage
	return len(a.body) == 0 || a.decode(&doc)
}

// reason is what the answer says, cut short: BotWire's detail if it is one.
func (a *answer) reason() string {
	var doc struct{ Detail json.RawMessage }
	text := ""
	if a.decode(&doc) && json.Unmarshal(doc.Detail, &text) != nil {
		text = faultsIn(doc.Detail)
	}
	return fmt.Sprintf("HTTP %d: %.*s", a.status, maxReason, cmp.Or(text, "an answer that is not BotWire's"))
}

// faultsIn tells the list of faults that BotWire's framework finds in a request; empty
// if it is none. What a fault quotes of the request is left out: it may be a value.
func faultsIn(detail json.RawMessage) string {
	var faults []struct {
		Type, Msg string
		Loc       []any // names and positions
	}
	if json.Unmarshal(detail, &faults) != nil {
		return ""
	}
	var told []string
	for _, f := range faults {
		var where []string
		for _, step := range f.Loc {
			where = append(where, fmt.Sprint(step))
		}
		text := f.Type
		if len(where) > 0 {
			text += " at " + strings.Join(where, ".")
		}
		if f.Msg != "" {
			text += ": " + f.Msg
		}
		if text = strings.TrimLeft(text, ": "); text != "" {
			told = append(told, text)
		}
	}
	return strings.Join(told, "; ")
}

func (a *answer) failure() *RequestError {
	return &RequestError{
		verdict: a.classify(), status: a.status,
		retryAfter: retryAfter(a.header, time.Now()), reason: a.reason(), body: a.forCallers(),
	}
}

// RequestError is a request that brought no usable answer.
type RequestError struct {
	verdict     Verdict
	status      int
	retryAfter  time.Duration
	unreachable bool   // there was not even a connection
	reason      string // for people; never holds a value
	body        []byte // the answer, if a caller may be given it
}

func (e *RequestError) Error() string { return e.reason }

func (e *RequestError) outcome() Outcome {
	return Outcome{
		Verdict: e.verdict, Status: e.status, Reason: e.reason, RetryAfter: e.retryAfter, unreachable: e.unreachable,
	}
}

// confirms reports whether an answer is BotWire's own word that it holds the write.
func confirms(a *answer, w journal.Write) bool {
	var doc struct {
		Namespace, Key, Detail string
		Stored, Deleted        bool
	}
	if !a.decode(&doc) {
		return false
	}
	named := doc.Namespace == w.Namespace && doc.Key == w.Key
	if w.Op == journal.Put {
		return a.status == http.StatusOK && named && doc.Stored
	}
	if a.status == http.StatusNotFound {
		return doc.Detail == wire.NotFoundDetail(w.Namespace, w.Key)
	}
	return a.status == http.StatusOK && named && doc.Deleted
}
