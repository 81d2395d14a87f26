package surface

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

// anyParameters allows any parameters: probes and scrapers add some.
const anyParameters = "*"

var errUnreadableQuery = wire.Detail(http.StatusBadRequest,
	"the query cannot be read: expected name=value pairs joined by &, with % only in escapes such as %20, and no semicolon")

// Require returns the parameters of a request. It refuses methods other than those (joined by a comma), and unknown or
// repeated parameters: see Err.
func Require(r *http.Request, methods string, parameters ...string) *Parameters {
	p := &Parameters{values: r.URL.Query()}
	if p.Err = requireMethod(r, methods); p.Err == nil {
		p.Err = requireParameters(r, parameters...)
	}
	return p
}

// requireMethod refuses other methods. It allows HEAD where it allows GET.
func requireMethod(r *http.Request, methods string) error {
	allowed := strings.Split(methods, ", ")
	if slices.Contains(allowed, r.Method) || r.Method == http.MethodHead && slices.Contains(allowed, http.MethodGet) {
		return nil
	}
	refusal := wire.Detail(http.StatusMethodNotAllowed, "Method Not Allowed")
	refusal.Allow = methods
	return refusal
}

func requireParameters(r *http.Request, parameters ...string) error {
	if slices.Contains(parameters, anyParameters) {
		return nil
	}
	// Ignoring an unknown parameter would act as if it were not given: on all namespaces, for example.
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return errUnreadableQuery
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(parameters, name) {
			return wire.Detail(http.StatusBadRequest, fmt.Sprintf("unknown parameter %.40q: expected %s",
				name, cmp.Or(strings.Join(parameters, ", "), "none")))
		}
		if n := len(query[name]); n > 1 {
			return wire.Detail(http.StatusBadRequest, fmt.Sprintf("the parameter %s is given %d times: expected once", name, n))
		}
	}
	return nil
}

// Allow extends the write deadline of a request that may take longer than others. If the deadline cannot be
// set, the answer may be lost, as any answer may.
func Allow(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + answerTime))
}

// waiters bounds how many requests wait for long at a time, so that callers who wait leave connections to
// others (contract 16).
type waiters chan struct{}

// Begin begins a wait, and returns nil if too many requests wait already.
func (n waiters) Begin() (end func()) {
	select {
	case n <- struct{}{}:
		return func() { <-n }
	default:
		return nil // guard 16.47
	}
}

// BeginWait begins a request that may wait for long, and refuses it if too many wait already.
func (s *Surface) BeginWait() (end func(), err error) {
	if end = s.Waiters.Begin(); end == nil {
		return nil, memory.ErrCrowded
	}
	return end, nil
}

// within bounds how long a request waits for upstream, and extends its write deadline. It refuses the request
// because of a wrong parameter, and if too many wait already.
func (s *Surface) within(w http.ResponseWriter, r *http.Request, p *Parameters, d time.Duration) (context.Context, func(), error) {
	if p.Err != nil {
		return nil, nil, p.Err
	}
	end, err := s.BeginWait()
	if err != nil {
		return nil, nil, err
	}
	Allow(w, d)
	ctx, cancel := s.tasks.Patience(r.Context(), d)
	return ctx, func() { cancel(); end() }, nil
}

// supported ignores http.ErrNotSupported: a test's writer is not a connection.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// Parameters are a request's parameters. A wrong parameter reads as not given.
type Parameters struct {
	values url.Values
	Err    error // refuses a wrong method, or the first wrong parameter; nil if there is neither
}

func (p *Parameters) refuse(refusal error) {
	if p.Err == nil {
		p.Err = refusal
	}
}

// Refuse refuses the request because of a parameter. The first refusal counts.
func (p *Parameters) Refuse(format string, args ...any) {
	p.refuse(wire.Detail(http.StatusBadRequest, fmt.Sprintf(format, args...)))
}

// Text returns a parameter as it is; empty if not given.
func (p *Parameters) Text(name string) string { return p.values.Get(name) }

// Entry returns the entry named by the parameters namespace and key.
func (p *Parameters) Entry() journal.ID {
	id := journal.ID{Namespace: p.Text("namespace"), Key: p.Text("key")}
	if id.Namespace == "" || id.Key == "" {
		p.Refuse("expected the parameters namespace and key, which name an entry")
	} else if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		p.refuse(refusal)
	}
	return id
}

// namespace returns the parameter namespace; empty, which means all, if not given.
func (p *Parameters) namespace() string {
	if !p.values.Has("namespace") {
		return ""
	}
	return p.oneNamespace(", or no such parameter for all namespaces") // empty: a script's unset variable, perhaps
}

func (p *Parameters) givenNamespace() string { return p.oneNamespace("") }

func (p *Parameters) oneNamespace(or string) string {
	namespace := p.Text("namespace")
	if namespace == "" {
		p.Refuse("the parameter namespace is missing or empty: expected the name of a namespace%s", or)
	} else if refusal := wire.CheckNamespace(namespace); refusal != nil {
		p.refuse(refusal)
	}
	return namespace
}

func (p *Parameters) truth(name string) bool {
	text := p.Text(name)
	value, err := strconv.ParseBool(text)
	if err != nil && text != "" {
		p.Refuse("%s=%q: expected true or false", name, text)
	}
	return value
}

// duration returns a parameter such as 30s, or a number of seconds. named is the text of most for the
// refusal of a longer duration.
func (p *Parameters) duration(name string, byDefault, most time.Duration, named string) time.Duration {
	text := p.Text(name)
	if text == "" {
		return byDefault
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 || d > most {
		p.Refuse("%s=%q: expected a duration such as 30s, from 0 to %s", name, text, named)
	}
	return d
}

func (p *Parameters) limit() int { return p.number("limit", defaultLimit, 1, maxLimit) }

func (p *Parameters) number(name string, byDefault, least, most int) int {
	text := p.Text(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		p.Refuse("%s=%q: expected a whole number from %d to %d", name, text, least, most)
	}
	return n
}

// Revision returns a parameter that names a version of an entry. The zero name means that it is not
// given.
func (p *Parameters) Revision(name string) memory.VersionName {
	text := p.Text(name)
	number, write := strings.CutPrefix(text, "w")
	n, err := strconv.ParseUint(number, 10, 64)
	if p.values.Has(name) && (err != nil || n == 0) {
		p.Refuse("%s=%.40q: expected a revision, or w and the number of a write, such as w17", name, text)
	}
	return memory.VersionName{Number: n, Write: write}
}

// Number returns the number of a write or a revision; 0 if not given. refusal is the format of the
// error for any other text.
func (p *Parameters) Number(name, refusal string) uint64 {
	text := p.Text(name)
	n, err := strconv.ParseUint(text, 10, 64)
	if p.values.Has(name) && (err != nil || n == 0) {
		p.Refuse(refusal, text)
	}
	return n
}

// asOf returns the parameter as_of, the number of a write, and last, the newest, at most: a later one would take in
// what is written from now on. It is 0 if not given.
func (p *Parameters) asOf(last uint64) uint64 {
	return min(p.Number("as_of", "as_of=%.40q: expected as_of of the answer before"), last)
}
