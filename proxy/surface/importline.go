package surface

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

// parseImport reads the entries in a body. With a namespace, all are of that one. A line that is
// no entry refuses all of them, so that nothing is done of a body with a fault. numbers has the
// number of each entry's line, the first of which is 1.
func parseImport(body []byte, namespace string) (entries []memory.ImportedEntry, numbers []int, lines int, err error) {
	for raw := range bytes.Lines(body) {
		lines++
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		line, err := api.ParseImportLine(raw)
		if err != nil {
			return nil, nil, 0, wire.Detail(http.StatusBadRequest,
				fmt.Sprintf("line %d cannot be imported, and nothing of the request is: %v", lines, err))
		}
		if line.End != nil {
			continue
		}
		if namespace != "" {
			line.Namespace = namespace
		}
		entries = append(entries, memory.ImportedEntry{ID: journal.ID{Namespace: line.Namespace, Key: line.Key}, Value: line.Value, UpdatedAt: line.UpdatedAt})
		numbers = append(numbers, lines)
	}
	return entries, numbers, lines, nil
}
