package mcp_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// docs/mcp.md has exactly these tools, with their arguments and hints.
func TestTheReferenceIsOfTheseTools(t *testing.T) {
	page, err := os.ReadFile("../../docs/mcp.md")
	noError(t, err)
	var written []string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.HasPrefix(line, "| `memory_") {
			written = append(written, strings.TrimSpace(cells[1])+strings.TrimSpace(cells[3])+": "+strings.TrimSpace(cells[4]))
		}
	}
	d := newDaemon(t)
	tools, err := d.overHTTP(d.serve()).session.ListTools(t.Context(), nil)
	noError(t, err)
	var want []string
	for _, tool := range tools.Tools {
		want = append(want, fmt.Sprintf("`%s`%s: %s", tool.Name, argumentsOf(tool), hintsOf(t, tool)))
	}
	slices.Sort(written)
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// argumentsOf lists the required arguments, and the others in parentheses.
func argumentsOf(tool *sdk.Tool) string {
	schema := tool.InputSchema.(map[string]any)
	required, _ := schema["required"].([]any)
	var must, may []string
	for _, name := range []string{"namespace", "key", "value", "query", "offset", "separator", "if_version", "prefix", "since", "limit", "after"} {
		switch {
		case schema["properties"].(map[string]any)[name] == nil:
		case slices.Contains(required, any(name)):
			must = append(must, "`"+name+"`")
		default:
			may = append(may, "`"+name+"`")
		}
	}
	text := strings.Join(must, ", ")
	if len(may) > 0 {
		text += " (" + strings.Join(may, ", ") + ")"
	}
	return strings.TrimSpace(text)
}

func hintsOf(t *testing.T, tool *sdk.Tool) string {
	h := tool.Annotations
	if h == nil || h.DestructiveHint == nil || h.OpenWorldHint == nil || *h.OpenWorldHint {
		t.Fatalf("%s has the hints %+v", tool.Name, h)
	}
	switch {
	case h.ReadOnlyHint && !*h.DestructiveHint && h.IdempotentHint:
		return "reads"
	case !h.ReadOnlyHint && *h.DestructiveHint && h.IdempotentHint:
		return "destructive, idempotent"
	case !h.ReadOnlyHint && *h.DestructiveHint && !h.IdempotentHint:
		return "destructive"
	case !h.ReadOnlyHint && !*h.DestructiveHint && !h.IdempotentHint:
		return "adds"
	}
	return "none that the page knows"
}
