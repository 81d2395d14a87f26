package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/cache"
)

// directives are what a caller asks of the cache (RFC 9111, section 5.2.1).
type directives struct {
	noCache      bool          // upstream has to be asked
	onlyIfCached bool          // upstream must not be waited for
	maxAge       time.Duration // no older answer will do; negative: any
}

// anyAge are the directives of a caller that asks nothing of the cache.
var anyAge = directives{maxAge: -1}

// parseDirectives ignores directives that it does not know, as the RFC asks.
func parseDirectives(h http.Header) directives {
	d := anyAge
	for _, line := range h["Cache-Control"] {
		for part := range strings.SplitSeq(line, ",") {
			d.add(strings.ToLower(strings.TrimSpace(part)))
		}
	}
	return d
}

func (d *directives) add(part string) {
	switch part {
	case "no-cache":
		d.noCache = true
	case "only-if-cached":
		d.onlyIfCached = true
	default:
		seconds, ok := strings.CutPrefix(part, "max-age=")
		n, err := strconv.ParseUint(strings.Trim(seconds, `"`), 10, 31)
		if ok && err == nil {
			d.maxAge = time.Duration(n) * time.Second
		}
	}
}

// narrow reports whether the caller does not take every answer that the policy would.
func (d directives) narrow() bool { return d.noCache || d.maxAge >= 0 }

// name is how the caller has said so.
func (d directives) name() string {
	if d.noCache {
		return "no-cache"
	}
	return "max-age=" + strconv.FormatInt(int64(d.maxAge/time.Second), 10)
}

// judge returns what an answer is good for under a policy and a caller's directives.
// A pending write is the newest there is, whatever the caller asks for.
func (d directives) judge(p cache.Policy, item *cache.Item, now time.Time) (cache.Freshness, time.Duration) {
	if item.ConfirmedAt.IsZero() {
		return cache.Fresh, 0
	}
	age := cache.Age(item.ConfirmedAt, now)
	if d.noCache || (d.maxAge >= 0 && age > d.maxAge) {
		return cache.Worthless, age
	}
	return p.Judge(item.Body != nil, age), age
}
