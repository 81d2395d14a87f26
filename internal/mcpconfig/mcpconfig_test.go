package mcpconfig_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/mcpconfig"
)

var server = mcpconfig.Server{Name: "botwired", Command: "/opt/bot wired", Args: []string{"mcp", "--namespace=n<1>"}}

func find(t *testing.T, name string) *mcpconfig.Client {
	t.Helper()
	c, ok := mcpconfig.Find(name)
	if !ok {
		t.Fatalf("there is no client %s", name)
	}
	return c
}

func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }

// added are files before and after. Taking the server out again leaves what is in back, or the
// file before.
var added = []struct{ name, client, before, after, back string }{
	{
		"a new file", "claude", "",
		lines(`{`, `  "mcpServers": {`, `    "botwired": {`, `      "command": "/opt/bot wired",`,
			`      "args": ["mcp", "--namespace=n<1>"]`, `    }`, `  }`, `}`),
		lines(`{`, `  "mcpServers": {}`, `}`),
	},
	{
		"an empty object", "cursor", "{}",
		strings.TrimSuffix(lines(`{`, `  "mcpServers": {`, `    "botwired": {`, `      "command": "/opt/bot wired",`,
			`      "args": ["mcp", "--namespace=n<1>"]`, `    }`, `  }`, `}`), "\n"),
		"{\n  \"mcpServers\": {}\n}",
	},
	{
		"other servers, and fields that the client wants", "vscode",
		lines(`{`, "\t\"inputs\": [],", "\t\"servers\": {", "\t\t\"other\": { \"url\": \"http://x\" } // kept", "\t}", `}`),
		lines(`{`, "\t\"inputs\": [],", "\t\"servers\": {", "\t\t\"other\": { \"url\": \"http://x\" }, // kept",
			"\t\t\"botwired\": {", "\t\t\t\"type\": \"stdio\",", "\t\t\t\"command\": \"/opt/bot wired\",",
			"\t\t\t\"args\": [\"mcp\", \"--namespace=n<1>\"]", "\t\t}", "\t}", `}`), "",
	},
	{
		"comments and trailing commas", "zed",
		lines(`// mine`, `{`, `  /* a */ "theme": "x", // b`, `  // c`, `}`),
		lines(`// mine`, `{`, `  /* a */ "theme": "x", // b`, `  // c`, `  "context_servers": {`, `    "botwired": {`,
			`      "command": "/opt/bot wired",`, `      "args": ["mcp", "--namespace=n<1>"]`, `    }`, `  }`, `}`),
		lines(`// mine`, `{`, `  /* a */ "theme": "x", // b`, `  // c`, `  "context_servers": {}`, `}`),
	},
	{
		"a comment at the very end", "zed", "{\"a\": 1}\n// mine",
		"{\"a\": 1,\"context_servers\":{\"botwired\":{\"command\":\"/opt/bot wired\",\"args\":[\"mcp\", \"--namespace=n<1>\"]}}}\n// mine\n",
		"{\"a\": 1,\"context_servers\":{}}\n// mine\n",
	},
	{
		"one line", "claude-code", `{"a":{"b":1.50e3},"mcpServers":{"o":{"command":"c"}}}`,
		`{"a":{"b":1.50e3},"mcpServers":{"o":{"command":"c"},"botwired":{"type":"stdio","command":"/opt/bot wired","args":["mcp", "--namespace=n<1>"]}}}`, "",
	},
	{
		"line ends and a byte order mark of Windows", "windsurf", "\ufeff{\r\n    \"mcpServers\": {\r\n    }\r\n}\r\n",
		"\ufeff{\r\n    \"mcpServers\": {\r\n        \"botwired\": {\r\n            \"command\": \"/opt/bot wired\",\r\n" +
			"            \"args\": [\"mcp\", \"--namespace=n<1>\"]\r\n        }\r\n    }\r\n}\r\n",
		"\ufeff{\r\n    \"mcpServers\": {}\r\n}\r\n",
	},
	{
		"a server that differs keeps its other fields", "cursor",
		lines(`{`, `  "mcpServers": {`, `    "botwired": {"command": "old", "env": {"A": "b"}, "args": [`, `      "x"`, `    ]}`, `  }`, `}`),
		lines(`{`, `  "mcpServers": {`, `    "botwired": {"command": "/opt/bot wired", "env": {"A": "b"}, "args": ["mcp", "--namespace=n<1>"]}`, `  }`, `}`),
		lines(`{`, `  "mcpServers": {}`, `}`),
	},
	{
		"in front of others", "gemini",
		lines(`{`, `  "mcpServers": {`, `    "botwired": {"command": "/opt/bot wired"},`, `    "z": {}`, `  }`, `}`),
		lines(`{`, `  "mcpServers": {`, `    "botwired": {"command": "/opt/bot wired","args":["mcp", "--namespace=n<1>"]},`, `    "z": {}`, `  }`, `}`),
		lines(`{`, `  "mcpServers": {`, `    "z": {}`, `  }`, `}`),
	},
	{
		"a new TOML file", "codex", "",
		lines(`[mcp_servers.botwired]`, `command = "/opt/bot wired"`, `args = ["mcp", "--namespace=n<1>"]`), "",
	},
	{
		"TOML with other tables", "codex",
		lines(`model = "m" # mine`, ``, `[mcp_servers.other]`, `command = "c"`, `[projects."/p"]`, `trust_level = "trusted"`),
		lines(`model = "m" # mine`, ``, `[mcp_servers.other]`, `command = "c"`, `[projects."/p"]`, `trust_level = "trusted"`, ``,
			`[mcp_servers.botwired]`, `command = "/opt/bot wired"`, `args = ["mcp", "--namespace=n<1>"]`), "",
	},
	{
		"TOML of a server that differs", "codex",
		lines(`[mcp_servers . "botwired"] # mine`, `args = [ # all`, `  "a",`, `  "b]",`, `]`, `startup_timeout_sec = 20`, ``,
			`[mcp_servers.botwired.env]`, `A = "b"`, `# of the next`, `[tui]`, `x = 1`),
		lines(`[mcp_servers . "botwired"] # mine`, `command = "/opt/bot wired"`, `args = ["mcp", "--namespace=n<1>"]`, `startup_timeout_sec = 20`, ``,
			`[mcp_servers.botwired.env]`, `A = "b"`, `# of the next`, `[tui]`, `x = 1`),
		lines(`# of the next`, `[tui]`, `x = 1`),
	},
}

func TestAddAndRemove(t *testing.T) {
	for _, c := range added {
		t.Run(c.name, func(t *testing.T) {
			client := find(t, c.client)
			after, err := client.Add([]byte(c.before), server)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(after)); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
			if again, err := client.Add(after, server); err != nil || string(again) != string(after) {
				t.Errorf("the second time changes it to %q, %v", again, err)
			}
			if has, err := client.Has(after, "botwired"); !has || err != nil {
				t.Errorf("it is not there: %v", err)
			}
			back, err := client.Remove(after, "botwired")
			if err != nil {
				t.Fatal(err)
			}
			want := c.back
			if want == "" {
				want = c.before
			}
			if diff := cmp.Diff(want, string(back)); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if none, err := client.Remove(back, "botwired"); err != nil || string(none) != string(back) {
				t.Errorf("the second removal changes it to %q, %v", none, err)
			}
		})
	}
}

// A file that is broken, or that holds something else where the servers are, is refused.
func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct{ name, client, text, want string }{
		{"half a file", "cursor", `{"mcpServers": {`, "not valid JSON: line 1, column 17"},
		{"another text", "cursor", `hello`, "not valid JSON"},
		{"a list", "cursor", `[]`, "the file holds a list, and has to hold an object"},
		{"servers in a list", "cursor", `{"mcpServers": []}`, `"mcpServers" is a list, and has to be an object`},
		{"a server that is a text", "cursor", `{"mcpServers": {"botwired": "x"}}`, `"botwired" is a string, and has to be an object`},
		{"UTF-16", "cursor", "\xff\xfe{\x00}\x00", "not valid JSON"},
		{"comments where the client takes none", "claude", "{} // mine", "comments or trailing commas, which the client does not take"},
		{"TOML that ends early", "codex", "[mcp_servers.x\n", "not valid TOML"},
		{"TOML of another kind", "codex", "mcp_servers = 1\n", `"mcp_servers" is a number or a time, and has to be an object`},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := find(t, c.client)
			_, addErr := client.Add([]byte(c.text), server)
			_, removeErr := client.Remove([]byte(c.text), "botwired")
			_, hasErr := client.Has([]byte(c.text), "botwired")
			for _, err := range []error{addErr, removeErr, hasErr} {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v lacks %q", err, c.want)
				}
			}
		})
	}
}

// A table that is not written as a table of its own is a person's to edit.
func TestEditsByHand(t *testing.T) {
	codex := find(t, "codex")
	for _, text := range []string{
		"mcp_servers = {other = {command = \"c\"}}\n",
		"mcp_servers.botwired.command = \"c\"\n",
		"[mcp_servers]\nbotwired = {command = \"c\"}\n",
	} {
		if out, err := codex.Add([]byte(text), server); !errors.Is(err, mcpconfig.ErrByHand) {
			t.Errorf("%q becomes %q, %v", text, out, err)
		}
	}
	// Two servers of one name, of which the client takes the last one.
	if out, err := find(t, "cursor").Remove([]byte(`{"mcpServers": {"botwired": {}, "botwired": {}}}`), "botwired"); !errors.Is(err, mcpconfig.ErrByHand) {
		t.Errorf("%q, %v", out, err)
	}
}

func TestFiles(t *testing.T) {
	home := t.TempDir()
	file := func(goos, client string, environ map[string]string) string {
		path := find(t, client).File(mcpconfig.Place{GOOS: goos, Home: home, Getenv: func(name string) string { return environ[name] }})
		rel, err := filepath.Rel(home, path)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.ToSlash(rel)
	}
	for _, c := range []struct{ goos, client, want string }{
		{"darwin", "claude", "Library/Application Support/Claude/claude_desktop_config.json"},
		{"windows", "claude", "AppData/Roaming/Claude/claude_desktop_config.json"},
		{"linux", "claude", ".config/Claude/claude_desktop_config.json"},
		{"darwin", "vscode", "Library/Application Support/Code/User/mcp.json"},
		{"linux", "vscode", ".config/Code/User/mcp.json"},
		{"darwin", "zed", ".config/zed/settings.json"},
		{"windows", "zed", "AppData/Roaming/Zed/settings.json"},
		{"windows", "codex", ".codex/config.toml"},
		{"linux", "claude-code", ".claude.json"},
	} {
		if got := file(c.goos, c.client, nil); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.client, c.goos, got, c.want)
		}
	}
	moved := map[string]string{
		"CODEX_HOME": filepath.Join(home, "c"), "XDG_CONFIG_HOME": filepath.Join(home, "x"), "CLAUDE_CONFIG_DIR": "relative",
	}
	for client, want := range map[string]string{"codex": "c/config.toml", "zed": "x/zed/settings.json", "claude-code": ".claude.json"} {
		if got := file("linux", client, moved); got != want {
			t.Errorf("%s: %s, want %s", client, got, want)
		}
	}
	var names []string
	for _, c := range mcpconfig.Clients() {
		names = append(names, c.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("%v is not in order", names)
	}
	if got := find(t, "cursor").ProjectFile("p"); got != filepath.Join("p", ".cursor", "mcp.json") {
		t.Error(got)
	}
	if got := find(t, "claude").ProjectFile("p"); got != "" {
		t.Error(got)
	}
}

// Whatever the file is, an edit keeps all else, or is refused.
func FuzzEdits(f *testing.F) {
	for _, c := range added {
		f.Add(c.client, c.before)
		f.Add(c.client, c.after)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		client, ok := mcpconfig.Find(name)
		if !ok {
			return
		}
		after, err := client.Add([]byte(text), server)
		if err != nil {
			return
		}
		if again, err := client.Add(after, server); err != nil || string(again) != string(after) {
			t.Errorf("%q: the second time makes %q of %q, %v", text, again, after, err)
		}
		if back, err := client.Remove(after, server.Name); err == nil {
			if has, err := client.Has(back, server.Name); has || err != nil {
				t.Errorf("%q: it is still there in %q, %v", text, back, err)
			}
		} else if !errors.Is(err, mcpconfig.ErrByHand) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
