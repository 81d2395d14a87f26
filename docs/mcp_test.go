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
	for _, variable := range []string{"XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", "~")
	t.Chdir("/")
	rows := 0
	for text := range strings.Lines(page) {
		if strings.HasPrefix(text, "| ") && strings.Contains(text, "`~") {
			rows++
		}
	}
	if clients := mcpconfig.Clients(); rows != len(clients) {
		t.Errorf("the page has %d clients, and botwired knows %d", rows, len(clients))
	}
	if runtime.GOOS != "linux" {
		return // the page has the paths of Linux
	}
	for _, c := range mcpconfig.Clients() {
		project := ""
		if file, err := c.File(true); err == nil {
			project = " `" + file[1:] + "`"
		}
		file, err := c.File(false)
		if err != nil {
			t.Fatal(err)
		}
		if row := fmt.Sprintf("| %s | `%s` | `%s` |%s |\n", c.Title, c.Name, file, project); !strings.Contains(page, row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}
