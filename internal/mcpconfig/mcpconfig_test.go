package mcpconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/mcpconfig"
)

var server = mcpconfig.Server{Name: "botwired", Program: "/opt/bot wired", Args: []string{"mcp", "--namespace=n"}}

func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }

// project changes into a project without clients in PATH, and returns the path of Cursor's file there.
func project(t *testing.T, text string) (file string) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.Mkdir(".cursor", 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd() // with symbolic links resolved
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, ".cursor", "mcp.json")
	if text != "" {
		if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func change(t *testing.T, client string, remove bool) (mcpconfig.Change, error) {
	t.Helper()
	c, ok := mcpconfig.Find(client)
	if !ok {
		t.Fatalf("there is no client %s", client)
	}
	return c.Change(t.Context(), server, true, remove)
}

func text(t *testing.T, file string) string {
	t.Helper()
	out, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The file's text before, after, and after the server is removed again.
var changes = []struct{ name, before, after, back string }{
	{
		"a new file", "",
		lines(`{`, `  "mcpServers": {`, `    "botwired": {`, `      "args": [`, `        "mcp",`, `        "--namespace=n"`, `      ],`,
			`      "command": "/opt/bot wired"`, `    }`, `  }`, `}`),
		lines(`{`, `  "mcpServers": {`, `  }`, `}`),
	},
	{
		"comments and trailing commas", lines(`// mine`, `{`, `  /* a */ "theme": "x", // b`, `  // c`, `}`),
		lines(`// mine`, `{`, `  /* a */ "theme": "x", // b`, `  "mcpServers": {`, `    "botwired": {`, `      "args": [`, `        "mcp",`,
			`        "--namespace=n"`, `      ],`, `      "command": "/opt/bot wired"`, `    }`, `  }`, `  // c`, `}`),
		lines(`// mine`, `{`, `  /* a */ "theme": "x", // b`, `  "mcpServers": {`, `  }`, `  // c`, `}`),
	},
	{
		"other servers", lines(`{"mcpServers": {`, `  "a": {"url": "x"} // kept`, `}, "b": 1.50e3}`),
		lines(`{"mcpServers": {`, `  "a": {"url": "x"}, // kept`, `    "botwired": {`, `      "args": [`, `        "mcp",`, `        "--namespace=n"`, `      ],`,
			`      "command": "/opt/bot wired"`, `    }`, `}, "b": 1.50e3}`),
		lines(`{"mcpServers": {`, `  "a": {"url": "x"} // kept`, `    }, "b": 1.50e3}`),
	},
	{
		"a server that differs keeps its other members",
		lines(`{"mcpServers": {"botwired": {"command": "old", "env": {"A": "b"}, /* c */ "args": []}}}`),
		lines(`{"mcpServers": {"botwired": {"command": "/opt/bot wired", "env": {"A": "b"}, /* c */ "args": [`,
			`        "mcp",`, `        "--namespace=n"`, `      ]}}}`),
		lines(`{"mcpServers": {}}`),
	},
}

// A change keeps everything else in the file, its mode, and a copy of the previous file beside it.
func TestChangeOfAFile(t *testing.T) {
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			file := project(t, c.before)
			done, err := change(t, "cursor", false)
			if err != nil || !done.Changed || done.File != file || (done.Backup == "") != (c.before == "") {
				t.Fatalf("%+v, %v", done, err)
			}
			if diff := cmp.Diff(c.after, text(t, file)); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
			if info, err := os.Stat(file); err != nil || c.before != "" && info.Mode().Perm() != 0o640 && runtime.GOOS != "windows" {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if done.Backup != "" && (text(t, done.Backup) != c.before || done.Backup != file+".botwired.bak") {
				t.Errorf("the copy %s is %q", done.Backup, text(t, done.Backup))
			}
			for _, remove := range []bool{false, true, true} {
				before := text(t, file)
				done, err := change(t, "cursor", remove)
				if changes := before == c.after && remove; err != nil || done.Changed != changes || (done.Backup != "") != changes {
					t.Errorf("remove %v: %+v, %v", remove, done, err)
				}
			}
			if diff := cmp.Diff(c.back, text(t, file)); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 2 || text(t, file+".botwired.bak") != c.after {
				t.Errorf("beside the file there are %v, %v", entries, err)
			}
		})
	}
}

// A file that botwired cannot change stays unchanged.
func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"half a file", `{"mcpServers": {`, "not valid JSON: line 1, column 17"},
		{"another text", `hello`, "not valid JSON"},
		{"a list", `[]`, "has to hold an object"},
		{"servers in a list", `{"mcpServers": []}`, `"/mcpServers" has to hold an object`},
		{"a server that is a text", `{"mcpServers": {"botwired": "x"}}`, `"/mcpServers/botwired" has to hold an object`},
		{"two of one name", `{"mcpServers": {"botwired": {}, "botwired": {}}}`, "botwired does not edit"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "not valid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := project(t, c.text)
			_, err := change(t, "cursor", false)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file+" is unchanged") {
				t.Errorf("%v lacks %q", err, c.want)
			}
			if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 || text(t, file) != c.text {
				t.Errorf("%v, %v, %q", entries, err, text(t, file))
			}
		})
	}
	t.Run("a link", func(t *testing.T) {
		file := project(t, "")
		if err := os.Symlink(filepath.Join(t.TempDir(), "x"), file); err != nil {
			t.Skip(err) // on Windows only administrators may
		}
		if _, err := change(t, "cursor", false); err == nil || !strings.Contains(err.Error(), file+" is unchanged: it is a symbolic link") {
			t.Error(err)
		}
	})
	t.Run("a directory", func(t *testing.T) {
		file := project(t, "")
		if err := os.Mkdir(file, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := change(t, "cursor", false); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Error(err)
		}
	})
}

// Codex' own command changes its file, and the previous file is kept.
func TestOwnCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the clients here are shell scripts")
	}
	project(t, "")
	t.Setenv("CODEX_HOME", t.TempDir())
	bin := t.TempDir()
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	if err := os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\necho \"$0 $*\" >> "+bin+"/calls\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	codex, _ := mcpconfig.Find("codex")
	if done, err := codex.Change(t.Context(), server, false, true); err != nil || done.Changed {
		t.Errorf("%+v, %v", done, err)
	}
	want := lines(bin + "/codex mcp remove botwired")
	if diff := cmp.Diff(want, text(t, filepath.Join(bin, "calls"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\necho no >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := codex.Change(t.Context(), server, false, false); err == nil || !strings.Contains(err.Error(), "codex mcp add botwired -- ") {
		t.Error(err)
	}
	// A command that fails may leave anything in the file.
	file := filepath.Join(os.Getenv("CODEX_HOME"), "config.toml")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\necho half > $CODEX_HOME/config.toml\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	done, err := codex.Change(t.Context(), server, false, false)
	if err == nil || !strings.Contains(err.Error(), file+" as it was is in "+done.Backup) || text(t, done.Backup) != "mine" {
		t.Errorf("%+v, %v", done, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := codex.Change(t.Context(), server, false, false); err == nil || !strings.Contains(err.Error(), "Codex is not in PATH") {
		t.Error(err)
	}
}

// Codex' command may succeed without any change. Then botwired says what to do.
func TestOwnCommandThatDoesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the clients here are shell scripts")
	}
	project(t, "")
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("CODEX_HOME", t.TempDir())
	if err := os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	codex, _ := mcpconfig.Find("codex")
	if _, err := codex.Change(t.Context(), server, false, false); err == nil || !strings.Contains(err.Error(), "has put no [mcp_servers.botwired] into") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("CODEX_HOME"), "config.toml"), []byte(codex.Entry(server)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := codex.Change(t.Context(), server, false, true); err == nil || !strings.Contains(err.Error(), "take [mcp_servers.botwired] out by hand") {
		t.Error(err)
	}
}

func TestClients(t *testing.T) {
	var names []string
	for _, c := range mcpconfig.Clients() {
		names = append(names, c.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("%v is not in order", names)
	}
	claude, _ := mcpconfig.Find("claude")
	if file, err := claude.File(true); err == nil || !strings.Contains(err.Error(), "Claude Desktop has no file of a project") {
		t.Error(file, err)
	}
	t.Setenv("CODEX_HOME", t.TempDir())
	t.Setenv("CLAUDE_CONFIG_DIR", "relative")
	codex, _ := mcpconfig.Find("codex")
	if file, err := codex.File(false); err != nil || file != filepath.Join(os.Getenv("CODEX_HOME"), "config.toml") {
		t.Error(file, err)
	}
	if got := codex.Entry(server); got != "[mcp_servers.botwired]\ncommand = \"/opt/bot wired\"\nargs = [\"mcp\",\"--namespace=n\"]\n" {
		t.Error(got)
	}
	code, _ := mcpconfig.Find("claude-code")
	home, err := os.UserHomeDir()
	if file, failed := code.File(false); err != nil || failed != nil || file != filepath.Join(home, ".claude.json") {
		t.Error(file, failed)
	}
}

// The command writes a folder for Hermes. Run again, it changes nothing, and --remove deletes the folder. It keeps a copy of
// a file that somebody has edited, and does not touch another program's folder.
func TestFolderOfHermes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HERMES_HOME", home)
	hermes, _ := mcpconfig.Find("hermes")
	s := mcpconfig.Server{Name: "team", Program: "/opt/bot wired", Memory: mcpconfig.Memory{Namespace: "n", Flags: []string{"--listen=a:1"}}}
	folder := filepath.Join(home, "plugins", "team")
	change := func(remove, changes bool, backup string) {
		t.Helper()
		done, err := hermes.Change(t.Context(), s, false, remove)
		if want := (mcpconfig.Change{File: folder, Changed: changes, Backup: backup}); err != nil || done != want {
			t.Fatalf("%+v, %v, and not %+v", done, err, want)
		}
	}
	change(true, false, "")
	change(false, true, "")
	change(false, false, "")
	want := lines(`{`, `  "program": "/opt/bot wired",`, `  "flags": [`, `    "--listen=a:1"`, `  ],`, `  "namespace": "n",`,
		`  "read_only": false,`, `  "tools": []`, `}`)
	if diff := cmp.Diff(want, text(t, filepath.Join(folder, "botwired.json"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := text(t, filepath.Join(folder, "plugin.yaml")); !strings.HasPrefix(got, "name: team\n") {
		t.Error(got)
	}
	if got := hermes.Entry(s); !strings.Contains(got, want) || !strings.Contains(got, "class BotwiredMemory(MemoryProvider)") {
		t.Error(got)
	}
	code := filepath.Join(folder, "__init__.py")
	for range 2 { // the second copy takes the place of the first
		if err := os.WriteFile(code, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		change(false, true, code+".botwired.bak")
	}
	if got := text(t, code+".botwired.bak"); got != "mine" {
		t.Error(got)
	}
	if err := os.Remove(code + ".botwired.bak"); err != nil {
		t.Fatal(err)
	}
	change(true, true, "")
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Error(err)
	}
	change(false, true, "")
	if err := os.Remove(filepath.Join(folder, "botwired.json")); err != nil { // as if the machine had ended amid the files
		t.Fatal(err)
	}
	change(false, true, "")
	change(true, true, "")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(code, []byte("another's"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, remove := range []bool{false, true} {
		if _, err := hermes.Change(t.Context(), s, false, remove); err == nil || !strings.Contains(err.Error(), "give this one another --name") {
			t.Error(err)
		}
	}
	if _, err := hermes.Place(s, true); err == nil {
		t.Error("Hermes has no file of a project")
	}
}
