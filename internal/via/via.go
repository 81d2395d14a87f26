// Package via notices that the requests of a daemon come back to it: its upstream is the
// daemon itself, behind a proxy or another name, or another daemon whose upstream is this
// one. A write that came back would be confirmed by the journal that it is still pending in.
//
// Each daemon has a name of its own, drawn when it starts. It signs its requests upstream in
// the header Via (RFC 9110, section 7.6.3), which every gateway writes and none takes away. A
// daemon refuses a request that is signed by itself with 508.
//
// The signature of requests does not reveal a loop of several daemons: each keeps the writes
// that it is sent, and flushes them by requests of its own. So a daemon also signs its answers to daemons, and
// names all that stand between it and the memory service, as its own upstream's answers
// do. A daemon that finds its own name in an answer from upstream stands in a loop. A daemon
// also refuses the requests of the daemons ahead of it. Daemons in a row see none of this,
// and BotWire sees one header of the last one.
package via

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	header = "Via"
	// mark begins the name of every daemon.
	mark = "botwired-"
	// maxAhead bounds how many daemons an answer names: those of a loop that has no end.
	maxAhead = 16
	// maxNamed bounds how many daemons a message is searched for: a caller may write
	// thousands of names into one.
	maxNamed = 64
)

// Chain is a daemon's place among those that stand before its memory service. It may be used
// concurrently. A nil one signs nothing and notices nothing.
type Chain struct {
	own   string
	ahead atomic.Pointer[[]string] // from upstream to here, as upstream's last answer says
}

// New returns the place of a new daemon, with a name that no other has.
func New() *Chain {
	c := &Chain{own: mark + strings.ToLower(rand.Text())}
	c.ahead.Store(new([]string))
	return c
}

// Sign signs a request upstream.
func (c *Chain) Sign(h http.Header) {
	if c != nil {
		h.Add(header, "1.1 "+c.own)
	}
}

// Learn takes note of the head of an answer of upstream's, and reports whether the request
// came back to this daemon.
func (c *Chain) Learn(status int, h http.Header) (loop bool) {
	if c == nil {
		return false
	}
	ahead := daemons(h)
	if len(ahead) > 0 || status < http.StatusInternalServerError { // else a gateway has answered, perhaps
		c.ahead.Store(&ahead)
	}
	return slices.Contains(ahead, c.own)
}

// Guard refuses requests that have come round in a circle, and passes on all others.
func (c *Chain) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := daemons(r.Header)
		if len(from) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		ahead := c.line()
		w.Header().Set(header, "1.1 "+strings.Join(ahead, ", 1.1 "))
		if slices.ContainsFunc(from, func(name string) bool { return slices.Contains(ahead, name) }) { // guard 13.24
			refuse(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *Chain) line() []string {
	ahead := slices.DeleteFunc(slices.Clone(*c.ahead.Load()), func(name string) bool { return name == c.own })
	return append(ahead[max(0, len(ahead)-maxAhead):], c.own)
}

// refuse answers 508 (RFC 5842, section 7.2): nothing is done of what was asked.
func refuse(w http.ResponseWriter) {
	body, _ := json.Marshal(map[string]string{"detail": "This request has come back to a botwired that it came from: " +
		"the upstream.url of one of them leads to itself. Nothing of the request was done."}) // strings always marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusLoopDetected)
	_, _ = w.Write(body) // if this fails the caller is gone
}

// Strip takes the names of the daemons out of the head of an answer, and leaves those of
// other gateways.
func Strip(h http.Header) {
	var kept []string
	for _, line := range h[header] {
		elements := slices.DeleteFunc(strings.Split(line, ","), func(element string) bool { return daemon(element) != "" })
		if rest := strings.TrimSpace(strings.Join(elements, ",")); rest != "" {
			kept = append(kept, rest)
		}
	}
	if h.Del(header); len(kept) > 0 {
		h[header] = kept
	}
}

// daemon returns the daemon that an element of Via names: a protocol, a name, and perhaps a comment. It returns
// "" for another gateway.
func daemon(element string) string {
	fields := strings.Fields(element)
	if len(fields) > 1 && strings.HasPrefix(fields[1], mark) {
		return fields[1]
	}
	return ""
}

func daemons(h http.Header) (names []string) {
	for _, line := range h[header] {
		for element := range strings.SplitSeq(line, ",") {
			name := daemon(element)
			if name != "" && !slices.Contains(names, name) {
				if names = append(names, name); len(names) == maxNamed {
					return names
				}
			}
		}
	}
	return names
}
