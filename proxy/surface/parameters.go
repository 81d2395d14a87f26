package surface

import (
	"cmp"
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

// Require refuses other methods and parameters.
func Require(r *http.Request, method string, parameters ...string) error {
	if err := requireMethod(r, method); err != nil {
		return err
	}
	return requireParameters(r, parameters...)
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

// Allow gives a request that may take longer than others its time.
func Allow(w http.ResponseWriter, d time.Duration) error {
	return supported(http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + answerTime)))
}

// boolParameter is true or false, and false if it is not given.
func boolParameter(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, wire.Detail(http.StatusBadRequest, fmt.Sprintf("%s=%q: expected true or false", name, text))
	}
	return value, nil
}

var errEmptyNamespace = wire.Detail(http.StatusBadRequest,
	"the parameter namespace is empty: expected the name of a namespace, or no such parameter for all namespaces")

// namespaceParameter is empty if it is not given: all namespaces.
func namespaceParameter(r *http.Request) (string, error) {
	query := r.URL.Query()
	namespace := query.Get("namespace")
	switch {
	case !query.Has("namespace"):
		return "", nil
	case namespace == "": // a script's variable that is not set
		return "", errEmptyNamespace
	}
	if refusal := wire.CheckNamespace(namespace); refusal != nil {
		return "", refusal
	}
	return namespace, nil
}

// durationParameter is a duration such as 30s, or a number of seconds. The refusal of a longer
// one than most calls that named.
func durationParameter(r *http.Request, name string, byDefault, most time.Duration, named string) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return byDefault, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 || d > most {
		return 0, wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("%s=%q: expected a duration such as 30s, from 0 to %s", name, text, named))
	}
	return d, nil
}

func limitParameter(r *http.Request) (int, error) {
	return numberParameter(r, "limit", defaultLimit, 1, maxLimit)
}

// numberParameter is a whole number from one to another, or the default if it is not given.
func numberParameter(r *http.Request, name string, byDefault, least, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("%s=%q: expected a whole number from %d to %d", name, text, least, most))
	}
	return n, nil
}

// givenNamespace is the parameter namespace, which must be there.
func givenNamespace(r *http.Request) (string, error) {
	namespace, err := namespaceParameter(r)
	if err == nil && namespace == "" {
		err = errNoNamespace
	}
	return namespace, err
}

var errNoNamespace = wire.Detail(http.StatusBadRequest, "the parameter namespace is missing: expected the name of a namespace")

// supported ignores that a writer, of a test, is no connection.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// EntryParameter is the entry that the parameters namespace and key name.
func EntryParameter(r *http.Request) (journal.ID, error) {
	query := r.URL.Query()
	id := journal.ID{Namespace: query.Get("namespace"), Key: query.Get("key")}
	if id.Namespace == "" || id.Key == "" {
		return id, wire.Detail(http.StatusBadRequest, "expected the parameters namespace and key, which name an entry")
	}
	if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		return id, refusal
	}
	return id, nil
}

// seqParameter is 0 if it is not given.
func seqParameter(r *http.Request) (uint64, error) {
	if !r.URL.Query().Has("seq") {
		return 0, nil
	}
	text := r.URL.Query().Get("seq")
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seq == 0 {
		return 0, wire.Detail(http.StatusBadRequest, fmt.Sprintf("seq=%q: expected the number of a pending write", text))
	}
	return seq, nil
}
