// Package via detects that a daemon's requests come back to it: its upstream is the daemon itself,
// behind a proxy or another name, or another daemon whose upstream is this one. A write that came back
// would be confirmed by the journal that it is still pending in.
//
// Each daemon draws a name when it starts. It signs its requests upstream in the header Via (RFC 9110,
// section 7.6.3), which every gateway adds to and none removes. A daemon refuses a request with its own
// signature with 508.
//
// The signature of requests does not reveal a loop of several daemons: each keeps the writes that it
// receives, and flushes them with its own requests. So a daemon also signs its answers to daemons. The
// signature names all daemons between itself and the memory service, including those that its own
// upstream's answers name. A daemon that finds its own name in an answer from upstream is part of a
// loop. A daemon also refuses the requests of the daemons ahead of it. Daemons in a row without a loop
// are not affected, and BotWire sees one header of the last one.
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
	// mark is the prefix of every daemon's name.
	mark = "botwired-"
	// maxAhead bounds how many daemons an answer names, in case of an endless loop.
	maxAhead = 16
	// maxNamed bounds how many names are read from a message: a caller may send thousands.
	maxNamed = 64
)

// Chain is a daemon's place in the row of daemons before its memory service. It may be used
// concurrently. A nil Chain signs nothing and detects nothing.
type Chain struct {
	own   string
	ahead atomic.Pointer[[]string] // from upstream to here, from upstream's last answer
}

// New returns the chain of a new daemon, with a unique name.
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

// Learn reads the header of an answer from upstream, and reports whether the request came back to this
// daemon.
func (c *Chain) Learn(status int, h http.Header) (loop bool) {
	if c == nil {
		return false
	}
	ahead := daemons(h)
	if len(ahead) > 0 || status < http.StatusInternalServerError { // otherwise a gateway may have answered
		c.ahead.Store(&ahead)
	}
	return slices.Contains(ahead, c.own)
}

// Guard returns a handler that refuses requests that came back in a loop, and passes all others to
// next.
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

// refuse answers 508 (RFC 5842, section 7.2): nothing of the request was done.
func refuse(w http.ResponseWriter) {
	body, _ := json.Marshal(map[string]string{"detail": "This request has come back to a botwired that it came from: " +
		"the upstream.url of one of them leads to itself. Nothing of the request was done."}) // strings always marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusLoopDetected)
	_, _ = w.Write(body) // if this fails, the caller is gone
}

// Strip removes the daemons' names from an answer's header, and leaves those of other gateways.
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

// daemon returns the daemon that an element of Via names: a protocol, a name, and perhaps a comment. It
// returns "" for another gateway.
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
