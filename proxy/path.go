package proxy

import (
	"net/http"
	"strings"

	"github.com/botwired/botwired/internal/wire"
)

// errUncertainPath refuses to pass on a path of which nobody here knows where it leads.
var errUncertainPath = wire.Detail(http.StatusBadRequest,
	`The path has a dot segment ("." or ".."), or leads to /memory by slashes of another kind. Servers on the way may `+
		"resolve it to another path, so botwired does not pass it on. Send the path that you mean.")

// mayLeadToMemory reports whether a path that is not the memory API's may become one of
// them on the way: gateways resolve dot segments, take a backslash for a slash, merge
// slashes, and leave out what follows a semicolon. A write that came in by such a path
// would go past the journal. The path is decoded; an escape that is left in it may be
// decoded on the way.
func mayLeadToMemory(path string) bool {
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	for i, segment := range segments {
		segment, _, _ = strings.Cut(segment, ";")
		if dots := escapedDot.Replace(segment); dots == "." || dots == ".." {
			return true
		}
		segments[i] = segment
	}
	for len(segments) > 0 && segments[0] == "" {
		segments = segments[1:]
	}
	return len(segments) > 0 && segments[0] == "memory"
}

var escapedDot = strings.NewReplacer("%2e", ".", "%2E", ".")
