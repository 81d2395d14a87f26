package proxy

import (
	"net/http"
	"strings"

	"github.com/botwired/botwired/internal/wire"
)

var errUncertainPath = wire.Detail(http.StatusBadRequest,
	`The path has a dot segment ("." or ".."), or leads to /memory by slashes of another kind. Servers on the way may `+
		"resolve it to another path, so botwired does not pass it on. Send the path that you mean.")

// mayLeadToMemory returns true if a gateway on the way may make a path of the memory API of another: by
// resolving dot segments, backslashes, double slashes, semicolons or escapes. Such a write would go past the
// journal.
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
