package flush_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

func throttled(retryAfter string) reply {
	return reply{status: 429, header: http.Header{"Retry-After": {retryAfter}}, body: `{"detail":"slow down"}`}
}

func TestRetryAfterIsHonouredExactly(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, row := range map[string]struct {
		header   func() string
		from, to time.Duration
	}{
		"seconds":      {func() string { return "77" }, 77 * time.Second, 77 * time.Second},
		"date":         {func() string { return date(90 * time.Second) }, 88 * time.Second, 90 * time.Second},
		"far too long": {func() string { return "99999999" }, 24 * time.Hour, 24 * time.Hour},
		"overflow":     {func() string { return strings.Repeat("9", 40) }, 24 * time.Hour, 24 * time.Hour},
		"far off":      {func() string { return date(100 * 24 * time.Hour) }, 24 * time.Hour, 24 * time.Hour},
		"past":         {func() string { return date(-time.Hour) }, backoffInitial / 2, backoffInitial * 3 / 2},
		"negative":     {func() string { return "-5" }, backoffInitial / 2, backoffInitial * 3 / 2},
		"nonsense":     {func() string { return "soon" }, backoffInitial / 2, backoffInitial * 3 / 2},
		"none":         {func() string { return "" }, backoffInitial / 2, backoffInitial * 3 / 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(c call) reply {
					if c.n == 0 {
						return throttled(row.header())
					}
					return reply{}
				}
				r.put(key("k"), "v")
				r.settleWithin(25 * time.Hour)
				steps := stepsOf(r.requests(anything))
				if got := steps[1].At - r.latency; got < row.from || got > row.to {
					t.Errorf("waited %v, want between %v and %v", got, row.from, row.to)
				}
			})
		})
	}
}

// TestThrottlingOutlivesRequestsUnderWay: upstream throttles the first of several requests at once, and
// then accepts one and asks another for a shorter wait.
func TestThrottlingOutlivesRequestsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			switch c.id.Key {
			case "0":
				rep := throttled("60")
				rep.after = time.Second // the others are sent meanwhile
				return rep
			case "1":
				return reply{after: 1500 * time.Millisecond}
			case "2":
				rep := throttled("1")
				rep.after = 2 * time.Second
				return rep
			}
			return reply{}
		}
		r.putMany("ns", 3)
		time.Sleep(5 * time.Second)
		for i := range 20 {
			r.put(key(fmt.Sprint("more", i)), "v")
		}
		time.Sleep(50 * time.Second)
		if n := len(r.requests(anything)); n != 3 {
			t.Errorf("%d requests while the namespace was to wait, want the first 3", n)
		}
	})
}

func TestThrottledNamespaceDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.id.Namespace == "throttled" {
				return throttled("600")
			}
			return reply{}
		}
		for i := range 100 {
			r.put(journal.ID{Namespace: "throttled", Key: fmt.Sprint(i)}, "v")
			r.put(key(fmt.Sprint(i)), "v")
		}
		time.Sleep(100*(r.latency+10*time.Millisecond) + time.Second) // one after the other
		if n := len(r.requests(in("ns"))); n != 100 {
			t.Errorf("%d of the other namespace's 100 writes were sent", n)
		}
		if n := len(r.requests(in("throttled"))); n > concurrency {
			t.Errorf("%d requests of the throttled namespace", n)
		}
		if got := r.health.Report(); got.State != upstream.Up {
			t.Errorf("upstream is taken to be %s: %s", got.State, got.Reason)
		}
	})
}

func TestPausedNamespaceIsTriedEveryBackoffMax(t *testing.T) {
	for _, status := range []int{401, 402, 403, 404, 405, 451} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(call) reply { return detail(status) }
				r.putMany("ns", 5)
				time.Sleep(linger + time.Second)
				want := fmt.Sprintf("HTTP %d: status %d", status, status)
				if got := r.flusher.Paused("ns"); got != want {
					t.Errorf("paused: %q, want %q", got, want)
				}
				before := len(r.requests(anything))
				time.Sleep(10 * backoffMax)
				calls := r.requests(anything)[before:]
				if len(calls) < 9 || len(calls) > 10 {
					t.Errorf("%d attempts in ten times BackoffMax", len(calls))
				}
				for i := 1; i < len(calls); i++ {
					if gap := calls[i].at.Sub(calls[i-1].at); gap != backoffMax+r.latency {
						t.Errorf("%v between two attempts", gap)
					}
				}
				r.set(func(f *fake) { f.answer = nil })
				r.settleWithin(backoffMax + time.Second)
				if got := r.flusher.Paused("ns"); got != "" {
					t.Errorf("still paused: %s", got)
				}
			})
		})
	}
}

func TestPausedEntryTakesItsNewestState(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(call) reply { return detail(403) }
		r.put(key("k"), "1")
		time.Sleep(time.Second)
		r.put(key("k"), "2")
		time.Sleep(backoffMax)
		r.set(func(f *fake) { f.answer = nil })
		r.put(key("k"), "3")
		r.settleWithin(2 * backoffMax)
		r.wantHeld(key("k"), "3")
	})
}

func TestDeadLetterInAPausedNamespaceLetsTheOthersGo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.n == 0 {
				return detail(403)
			}
			return detail(400)
		}
		r.put(key("k"), "v")
		r.settleWithin(2 * backoffMax)
		r.set(func(f *fake) { f.answer = nil })
		r.put(key("other"), "v")
		r.settleWithin(time.Second)
	})
}

// Outcomes of a write in [verdictRows].
const again, later, paused, dead = "again", "after the window", "paused", "dead"

const (
	html = "<html>Sign in to the airport</html>"
	own  = `{"detail":"no"}`
)

// verdictRows is contract 15's table: the outcome of a write for each answer.
var verdictRows = []struct {
	name   string
	reply  reply
	del    bool
	become string
}{
	{"400", reply{status: 400, body: own}, false, dead},
	{"400 to a DELETE", reply{status: 400, body: own}, true, dead},
	{"413", reply{status: 413, body: own}, false, dead},
	{"422", reply{status: 422, body: `{"detail":[{"type":"missing","loc":["body","value"],"msg":"Field required"}]}`}, false, dead},
	{"422 in a sentence", reply{status: 422, body: own}, false, dead},
	{"422 without a place", reply{status: 422, body: `{"detail":[{"type":"x"}]}`}, false, dead},
	{"400 of a gateway", reply{status: 400, body: html}, false, again},
	{"400 of a gateway, sent as a page in capitals", reply{status: 400, header: http.Header{"Content-Type": {"Text/HTML"}}, body: own}, false, again},
	{"400 of a gateway, sent as a page", reply{status: 400, header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, body: own}, false, again},
	{"400 of a gateway, in JSON", reply{status: 400, body: `{"message":"no"}`}, false, again},
	{"400 of a gateway, empty", reply{status: 400}, false, again},
	{"400 of a gateway, a problem (RFC 9457)", reply{status: 400, body: `{"type":"about:blank","status":400,"detail":"no"}`}, false, again},
	{"400 with a list", reply{status: 400, body: `{"detail":[{"type":"x"}]}`}, false, again},
	{"400 of nothing", reply{status: 400, body: `{"detail":""}`}, false, again},
	{"400 in capitals", reply{status: 400, body: `{"Detail":"no"}`}, false, again},
	{"413 of a gateway", reply{status: 413, body: html}, false, again},
	{"413 of a gateway, empty", reply{status: 413}, false, again},
	{"413 to a DELETE, which has nothing large", reply{status: 413, body: own}, true, again},
	{"422 of a gateway", reply{status: 422, body: html}, false, again},
	{"422 of a gateway, in JSON", reply{status: 422, body: `{"errors":[]}`}, false, again},
	{"422 with no fault", reply{status: 422, body: `{"detail":[]}`}, false, again},
	{"422 about another request", reply{status: 422, body: `{"detail":[{"type":"missing","loc":["query","token"],"msg":"x"}]}`}, false, again},
	{"422 to a DELETE, about a body", reply{status: 422, body: `{"detail":[{"type":"missing","loc":["body"],"msg":"x"}]}`}, true, again},
	{"422 to a DELETE, in a sentence", reply{status: 422, body: own}, true, again},
	{"401", reply{status: 401, body: own}, false, paused},
	{"404 to a PUT", reply{status: 404, body: `{"detail":"Not Found"}`}, false, paused},
	{"404 to a DELETE, not about the entry", reply{status: 404, body: `{"detail":"Not Found"}`}, true, paused},
	{"404 to a PUT, about the entry", reply{status: 404, body: `{"detail":"Key not found: ns/k"}`}, false, paused},
	{"408", reply{status: 408, body: own}, false, again},
	{"425", reply{status: 425, body: own}, false, again},
	{"500", reply{status: 500, body: own}, false, again},
	{"502", reply{status: 502, body: html}, false, later},
	{"503", reply{status: 503, body: own}, false, again},
	{"504", reply{status: 504, body: own}, false, later},
	{"524", reply{status: 524, body: own}, false, later},
	{"cut", reply{cut: true}, false, later},
	{"timeout", reply{hang: true}, false, later},
	{"redirect", reply{status: 307, header: http.Header{"Location": {"/elsewhere"}}}, false, again},
	{"redirect to a GET", reply{status: 302, header: http.Header{"Location": {"/memory/ns/k"}}}, true, again},
	{"captive portal", reply{status: 200, body: html}, false, again},
	{"another key", reply{status: 200, body: `{"namespace":"ns","key":"j","stored":true}`}, false, again},
	{"another namespace", reply{status: 200, body: `{"namespace":"n","key":"k","stored":true}`}, false, again},
	{"not stored", reply{status: 200, body: `{"namespace":"ns","key":"k","stored":false}`}, false, again},
	{"deleted, to a PUT", reply{status: 200, body: `{"namespace":"ns","key":"k","deleted":true}`}, false, again},
	{"stored, to a DELETE", reply{status: 200, body: `{"namespace":"ns","key":"k","stored":true}`}, true, again},
	{"empty", reply{status: 200}, false, again},
	{"truncated JSON", reply{status: 200, body: `{"namespace":"ns","key":"k","stored":true`}, false, again},
	{"truncated", reply{status: 200, header: http.Header{"Content-Length": {"99"}}, body: own}, false, later},
	{"huge", reply{status: 200, body: strings.Repeat(" ", 5<<20) + `{"namespace":"ns","key":"k","stored":true}`}, false, again},
	{"201", reply{status: 201, body: `{"namespace":"ns","key":"k","stored":true}`}, false, again},
	{"204", reply{status: 204}, true, again},
}

func TestVerdicts(t *testing.T) {
	for _, row := range verdictRows {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(c call) reply {
					if c.n == 0 && c.write() {
						return row.reply
					}
					return reply{}
				}
				if row.del {
					r.del(key("k"))
				} else {
					r.put(key("k"), "v")
				}
				time.Sleep(linger + r.latency + time.Millisecond)
				if first := became(r); first != "" {
					wantBecome(t, row.become, first)
					return
				}
				if r.pending() != 1 {
					t.Error("the answer is taken for a confirmation")
				}
				r.put(key("k"), "newer") // a late request may leave another state
				time.Sleep(timeout + 2*backoffInitial + linger)
				got := again
				if r.pending() > 0 {
					got = later
				}
				wantBecome(t, row.become, got)
				if reads := r.requests(func(c call) bool { return !c.write() }); len(reads) > 0 {
					t.Errorf("a write was answered, and upstream was asked %+v", stepsOf(reads))
				}
				r.settleWithin(lateWindow + backoffMax + time.Second)
				r.wantHeld(key("k"), "newer")
			})
		})
	}
}

func wantBecome(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the write (-want +got):\n%s", diff)
	}
}

// became returns the outcome of a write; empty if the write is retried.
func became(r *rig) string {
	switch {
	case r.flusher.Paused("ns") != "":
		return "paused"
	case r.journal.Stats().DeadLetters == 1 && len(r.requests(call.write)) == 1:
		return "dead"
	}
	return ""
}
