package sim

import (
	"io"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// fault is a state of upstream.
type fault uint8

const (
	healthy   fault = iota
	slow            // answers, but takes seconds
	down            // nobody listens
	broken          // 500, nothing done
	captive         // 200, but not BotWire's
	hanging         // takes the request and never answers; nothing done
	late            // never answers, and does it some time after it came
	later           // never answers, and does it some time after the client has given up
	deaf            // does it, and cuts the connection instead of answering
	flaky           // answers, but cuts the connections of some writes at once, and does them some time after they came
	limiting        // 429
	lockedOut       // 403
	refusing        // BotWire itself refuses every write for good
	gateway         // somebody on the way answers, and not in BotWire's form
	crowded         // BotWire has no room for more in the namespaces: it refuses puts, and carries out the rest
	faults          // their number
)

func (f fault) String() string {
	return [...]string{
		"healthy", "slow", "down", "broken", "captive", "hanging", "late", "later", "deaf", "flaky", "limiting", "lockedOut", "refusing", "gateway", "crowded",
	}[f]
}

// condition is a state of upstream, and what goes with it.
type condition struct {
	fault    fault
	lateness time.Duration // of late, later and flaky, and of a gateway's 502 and 504
	page     int           // of gateway, refusing and crowded: which answer; of flaky: which writes
}

// gatewayPages are answers of somebody on the way. None is about the request. After a 502 or a 504, BotWire may carry it
// out.
var gatewayPages = []struct {
	status int
	body   string
}{
	{400, ""},
	{400, "<html>Bad Request</html>"},
	{400, `{"message":"no route"}`},
	{400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"no"}`},
	{413, "<html>Request Entity Too Large</html>"},
	{413, `{"error":"too large"}`},
	{422, `{"errors":["no"]}`},
	{422, ""},
	{500, `{"detail":"Internal Server Error"}`},
	{500, ""},
	{502, "<html>Bad Gateway</html>"},
	{504, "<html>Gateway Timeout</html>"},
	{503, `{"message":"no upstream"}`},
	{404, "<html>Not Found</html>"},
	{404, `{"detail":"Not Found"}`},
	{301, ""},
	{200, ""},
	{200, `{}`},
}

// refusals are BotWire's own, of a PUT.
var refusals = []struct {
	status int
	body   string
}{
	{400, `{"detail":"Value too large. Max 100KB."}`},
	{413, `{"detail":"Request too large."}`},
	{422, `{"detail":[{"type":"string_type","loc":["body","value"],"msg":"Input should be a valid string","input":1}]}`},
}

// wantsOfRoom are BotWire's refusals of a put for want of room: no write is at fault.
var wantsOfRoom = []struct {
	status int
	body   string
}{
	{413, `{"detail":"Namespace is full."}`},
	{413, `{"detail":"Storage quota exceeded (50MB)."}`},
	{507, `{"detail":"The namespace has no room for this."}`},
}

// fails treats a request as the fault asks for. It is false if the service carries the
// request out, and answers.
func (s *service) fails(w http.ResponseWriter, r *http.Request, id journal.ID, body []byte, how condition) bool {
	switch how.fault {
	case slow:
		s.sleep(3 * time.Second)
		return false
	case broken:
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	case captive:
		_, _ = io.WriteString(w, "<html>Please log in</html>")
	case limiting:
		w.Header().Set("Retry-After", "2")
		wire.Detail(http.StatusTooManyRequests, "slow down").Write(w)
	case lockedOut:
		wire.Detail(http.StatusForbidden, "no").Write(w)
	case gateway:
		page := gatewayPages[how.page%len(gatewayPages)]
		if mayLand(page.status) {
			s.applyLater(r, id, body, how.lateness, true)
		}
		w.WriteHeader(page.status)
		_, _ = io.WriteString(w, page.body)
	case refusing:
		return s.refuses(w, r, id, body, how.page)
	case crowded:
		if r.Method != http.MethodPut {
			return false
		}
		refusal := wantsOfRoom[how.page%len(wantsOfRoom)]
		w.WriteHeader(refusal.status)
		_, _ = io.WriteString(w, refusal.body)
	case hanging:
		<-r.Context().Done()
	case late, later:
		s.applyLater(r, id, body, how.lateness, how.fault == later)
		<-r.Context().Done()
	case deaf:
		s.apply(r, id, body, false)
		panic(http.ErrAbortHandler)
	case flaky:
		if !s.cuts(r, how.page) {
			return false
		}
		s.applyLater(r, id, body, how.lateness, false)
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

// cuts reports whether a flaky service cuts the connection of a write: it does by the bits of page, in turn.
func (s *service) cuts(r *http.Request, page int) bool {
	if r.Method == http.MethodGet {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flickers++
	return page>>(s.flickers%4)&1 == 1
}

// refuses refuses a write as BotWire does. Reads are answered.
func (s *service) refuses(w http.ResponseWriter, r *http.Request, id journal.ID, body []byte, page int) bool {
	if r.Method == http.MethodGet {
		return false
	}
	s.mu.Lock()
	what, _ := s.written(id, body)
	s.judged.refuse(id, what)
	s.mu.Unlock()
	refusal := refusals[page%len(refusals)]
	if r.Method == http.MethodDelete {
		refusal = refusals[0]
	}
	w.WriteHeader(refusal.status)
	_, _ = io.WriteString(w, refusal.body)
	return true
}
