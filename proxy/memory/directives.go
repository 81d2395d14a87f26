package memory

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/cache"
)

// Directives are a caller's cache directives (RFC 9111, section 5.2.1).
type Directives struct {
	noCache      bool          // ask upstream
	onlyIfCached bool          // do not wait for upstream
	noStore      bool          // keep no copy because of this request
	maxAge       time.Duration // maximum age of the answer; negative: any
	maxStale     time.Duration // maximum time that the answer has been stale; negative: the policy decides
	minFresh     time.Duration // time for which the answer must stay fresh
}

// AnyAge are the directives of a caller without cache directives.
var AnyAge = Directives{maxAge: -1, maxStale: -1}

// ParseDirectives parses the lines of the header Cache-Control. It ignores unknown directives, as the RFC
// demands.
func ParseDirectives(lines []string) Directives {
	d := AnyAge
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			d.add(strings.ToLower(strings.TrimSpace(part)))
		}
	}
	return d
}

func (d *Directives) add(part string) {
	name, argument, hasArgument := strings.Cut(part, "=")
	if !hasArgument {
		switch name {
		case "no-cache":
			d.noCache = true
		case "only-if-cached":
			d.onlyIfCached = true
		case "no-store":
			d.noStore = true
		case "max-stale":
			d.maxStale = cache.Forever
		}
		return
	}
	seconds, ok := parseSeconds(argument)
	if !ok {
		return
	}
	switch name {
	case "max-age":
		d.maxAge = seconds
	case "max-stale":
		d.maxStale = seconds
	case "min-fresh":
		d.minFresh = seconds
	}
}

// parseSeconds parses a number of seconds. It cuts a number larger than any Age to the largest (RFC 9111,
// section 1.2.2).
func parseSeconds(argument string) (time.Duration, bool) {
	n, err := strconv.ParseUint(strings.Trim(argument, `"`), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return time.Duration(min(n, uint64(maxAge/time.Second))) * time.Second, true
}

// narrow reports whether the caller refuses some answers that the policy allows.
func (d Directives) narrow() bool {
	return d.noCache || d.maxAge >= 0 || d.minFresh > 0 || d.maxStale >= 0 && d.maxStale < cache.Forever
}

// freshness judges an answer by the policy and the caller's directives, and returns its age. excluded
// says that a directive makes the answer worthless. A pending write has no confirmation yet, and is
// always fresh.
func (d Directives) freshness(
	p cache.Policy, item *cache.Item, confirmedAt, now time.Time,
) (f cache.Freshness, age time.Duration, excluded bool) {
	if confirmedAt.IsZero() {
		return cache.Fresh, 0, false
	}
	age = cache.Age(confirmedAt, now)
	if d.excludes(p, item, age) {
		return cache.Worthless, age, true
	}
	f = p.Judge(item.Body != nil, age)
	if f > cache.Stale && d.maxStale >= 0 {
		f = cache.Stale // no staler than the caller accepts
	}
	return f, age, false
}

// excludes reports whether a directive forbids an answer of that age without a new confirmation by upstream.
func (d Directives) excludes(p cache.Policy, item *cache.Item, age time.Duration) bool {
	lifetime := p.Lifetime(item.Body != nil)
	switch {
	case d.noCache, d.minFresh > 0 && lifetime-age < d.minFresh:
		return true
	case d.maxStale == cache.Forever:
		return false
	case d.maxStale >= 0:
		if d.maxAge >= 0 {
			lifetime = min(lifetime, d.maxAge)
		}
		return age-lifetime > d.maxStale
	}
	return d.maxAge >= 0 && age > d.maxAge
}
