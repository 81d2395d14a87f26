package memory

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/cache"
)

// Directives are what a caller asks of the cache (RFC 9111, section 5.2.1).
type Directives struct {
	noCache      bool          // upstream has to be asked
	onlyIfCached bool          // upstream must not be waited for
	noStore      bool          // no copy is to be made because of this request
	maxAge       time.Duration // no older answer will do; negative: any
	maxStale     time.Duration // an answer will do that has been stale for so long; negative: the policy says
	minFresh     time.Duration // the answer has to stay fresh for so long
}

// AnyAge are the directives of a caller that asks nothing of the cache.
var AnyAge = Directives{maxAge: -1, maxStale: -1}

// ParseDirectives reads the lines of the header Cache-Control. It ignores directives that it does not
// know, as the RFC asks.
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

// parseSeconds reads a number of seconds. A number that is larger than any Age counts as the
// largest (RFC 9111, section 1.2.2).
func parseSeconds(argument string) (time.Duration, bool) {
	n, err := strconv.ParseUint(strings.Trim(argument, `"`), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return time.Duration(min(n, uint64(maxAge/time.Second))) * time.Second, true
}

// narrow returns true if the caller refuses some answers that the policy allows.
func (d Directives) narrow() bool {
	return d.noCache || d.maxAge >= 0 || d.minFresh > 0 || d.maxStale >= 0 && d.maxStale < cache.Forever
}

// freshness judges an answer by a policy and a caller's directives, and returns its age. excluded says that a
// directive makes it worthless. A pending write, which nobody has confirmed, is always fresh.
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
		f = cache.Stale // and no staler than the caller takes it
	}
	return f, age, false
}

// doubtedFreshness is freshness for an answer that may be older than it seems. A caller that takes stale
// answers takes it.
func (d Directives) doubtedFreshness(p cache.Policy) (f cache.Freshness, excluded bool) {
	switch {
	case d.minFresh > 0:
		return cache.Worthless, true
	case d.maxStale >= 0:
		return cache.Stale, false
	}
	return p.Doubted(), false
}

// excludes returns true if a directive forbids an answer of an age until upstream confirms it.
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
