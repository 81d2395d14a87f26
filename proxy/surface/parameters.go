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
)

// anyParameters lets a request have parameters of its own: probes and scrapers add some.
const anyParameters = "*"

var errUnreadableQuery = wire.Detail(http.StatusBadRequest,
	"the query cannot be read: expected name=value pairs joined by &, with % only in escapes such as %20, and no semicolon")

// Require returns the parameters of a request. It refuses other methods and parameters than those.
func Require(r *http.Request, method string, parameters ...string) *Parameters {
	p := &Parameters{values: r.URL.Query()}
	if p.Err = requireMethod(r, method); p.Err == nil {
		p.Err = requireParameters(r, parameters...)
	}
	return p
}

// requireMethod refuses other methods. HEAD is GET without the body.
func requireMethod(r *http.Request, methods ...string) error {
	if slices.Contains(methods, r.Method) || r.Method == http.MethodHead && slices.Contains(methods, http.MethodGet) {
		return nil
	}
	refusal := wire.Detail(http.StatusMethodNotAllowed, "Method Not Allowed")
	refusal.Allow = strings.Join(methods, ", ")
	return refusal
}

func requireParameters(r *http.Request, parameters ...string) error {
	if slices.Contains(parameters, anyParameters) {
		return nil
	}
	// A parameter that is not understood would count as not given: all namespaces for one.
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

// Allow gives a request that may take longer than others its time. If the deadline cannot be moved, the
// answer may be lost, as any can.
func Allow(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + answerTime))
}

// within gives a request a time, within which its caller waits for upstream.
func (s *Surface) within(w http.ResponseWriter, r *http.Request, d time.Duration) (context.Context, context.CancelFunc) {
	Allow(w, d)
	return s.tasks.Patience(r.Context(), d)
}

// supported ignores that a writer, of a test, is no connection.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// Parameters are those of a request. A parameter that is wrong is read as not given.
type Parameters struct {
	values url.Values
	Err    error // refuses the request: its method, or the first parameter that is wrong
}

func (p *Parameters) refuse(refusal error) {
	if p.Err == nil {
		p.Err = refusal
	}
}

// Refuse refuses the request because of a parameter.
func (p *Parameters) Refuse(format string, args ...any) {
	p.refuse(wire.Detail(http.StatusBadRequest, fmt.Sprintf(format, args...)))
}

// Text returns a parameter as it is; empty if it is not given.
func (p *Parameters) Text(name string) string { return p.values.Get(name) }

// Entry is the entry that the parameters namespace and key name.
func (p *Parameters) Entry() journal.ID {
	id := journal.ID{Namespace: p.Text("namespace"), Key: p.Text("key")}
	if id.Namespace == "" || id.Key == "" {
		p.Refuse("expected the parameters namespace and key, which name an entry")
	} else if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		p.refuse(refusal)
	}
	return id
}

// namespace is empty if it is not given: all namespaces.
func (p *Parameters) namespace() string {
	namespace := p.Text("namespace")
	if !p.values.Has("namespace") {
		return ""
	}
	if namespace == "" { // a script's variable that is not set
		p.Refuse("the parameter namespace is empty: expected the name of a namespace, or no such parameter for all namespaces")
	} else if refusal := wire.CheckNamespace(namespace); refusal != nil {
		p.refuse(refusal)
	}
	return namespace
}

func (p *Parameters) givenNamespace() string {
	namespace := p.namespace()
	if namespace == "" {
		p.Refuse("the parameter namespace is missing: expected the name of a namespace")
	}
	return namespace
}

// truth is true or false, and false if it is not given.
func (p *Parameters) truth(name string) bool {
	text := p.Text(name)
	value, err := strconv.ParseBool(text)
	if err != nil && text != "" {
		p.Refuse("%s=%q: expected true or false", name, text)
	}
	return value
}

// duration is a duration such as 30s, or a number of seconds. The refusal of a longer one than most calls
// that named.
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

// number is a whole number from one to another, or the default if it is not given.
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

// Number is the number of a write or a revision, 0 if it is not given. refusal formats the refusal of any
// other text.
func (p *Parameters) Number(name, refusal string) uint64 {
	text := p.Text(name)
	n, err := strconv.ParseUint(text, 10, 64)
	if p.values.Has(name) && (err != nil || n == 0) {
		p.Refuse(refusal, text)
	}
	return n
}
