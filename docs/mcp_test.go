package docs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/mcpconfig"
)

// mcp.md has a row for each client that botwired mcp install knows, with its files.
func TestClientsOfMCP(t *testing.T) {
	page := readDoc(t, "mcp.md")
	home := mcpconfig.Place{GOOS: "linux", Home: "~", Getenv: func(string) string { return "" }}
	rows := 0
	for text := range strings.Lines(page) {
		if strings.HasPrefix(text, "| ") && strings.Contains(text, "`~") {
			rows++
		}
	}
	if clients := mcpconfig.Clients(); rows != len(clients) {
		t.Errorf("the page has %d clients, and botwired knows %d", rows, len(clients))
	}
	if runtime.GOOS == "windows" {
		return // whose paths look otherwise
	}
	for _, c := range mcpconfig.Clients() {
		project := ""
		if file := c.ProjectFile(""); file != "" {
			project = " `" + file + "`"
		}
		if row := fmt.Sprintf("| %s | `%s` | `%s` |%s |\n", c.Title, c.Name, c.File(home), project); !strings.Contains(page, row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}
