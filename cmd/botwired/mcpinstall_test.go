package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// installTest is a home directory for "botwired mcp install".
type installTest struct {
	t    *testing.T
	home string
}

func (i *installTest) run(args ...string) outcome {
	i.t.Helper()
	var stdout, stderr bytes.Buffer
	p := &process{
		args:       append([]string{"mcp", "install"}, args...),
		environ:    []string{"HOME=" + i.home, "USERPROFILE=" + i.home, "APPDATA=" + filepath.Join(i.home, "AppData"), "BOTWIRED_CACHE_MEMORY=70MiB"},
		stdin:      strings.NewReader(""),
		stdout:     &stdout,
		stderr:     &stderr,
		isTerminal: func(any) bool { return false },
		size:       terminalSize,
		ticks:      everySecond,
		now:        func() time.Time { return time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC) },
	}
	code := p.run(i.t.Context())
	return outcome{code, stdout.String(), stderr.String()}
}

func (i *installTest) write(text string, at ...string) string {
	i.t.Helper()
	file := filepath.Join(append([]string{i.home}, at...)...)
	no(i.t, os.MkdirAll(filepath.Dir(file), 0o700))
	no(i.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// server is what a client's file says of a server.
func (i *installTest) server(file, name string) (command string, args []string) {
	i.t.Helper()
	text, err := os.ReadFile(file)
	no(i.t, err)
	var doc struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	no(i.t, json.Unmarshal(text, &doc))
	return doc.Servers[name].Command, doc.Servers[name].Args
}

func TestMCPInstall(t *testing.T) {
	i := &installTest{t, t.TempDir()}
	file := i.write(`{"mcpServers": {"other": {"command": "x"}}}`, ".cursor", "mcp.json")
	t.Chdir(i.home)
	got := i.run("--client", "cursor", "--namespace=team", "--read-only", "--data-dir", "data", "--upstream", "embedded", "--config", i.write("", "c.yaml"))
	wantParts(t, got.stdout, "written  "+file+"\n", "backup   "+file+".bak-20270131T120000Z\n", "next     Cursor: restart it\n")
	wantParts(t, got.stderr, "the client's server does not get BOTWIRED_CACHE_MEMORY from this environment: give the setting as a flag")
	command, args := i.server(file, "botwired")
	self, err := os.Executable()
	no(t, err)
	dir, err := os.Getwd() // behind symbolic links
	no(t, err)
	want := []string{
		"mcp", "--namespace=team", "--read-only", "--config=" + filepath.Join(i.home, "c.yaml"),
		"--data-dir=" + filepath.Join(dir, "data"), "--upstream-url=embedded",
	}
	if diff := cmp.Diff(want, args); diff != "" || command != self {
		t.Errorf("it starts %s (-want +got):\n%s", command, diff)
	}
	if other, _ := i.server(file, "other"); other != "x" {
		t.Errorf("the other server starts %q", other)
	}

	got = i.run("--client", "cursor", "--name", "second")
	if _, args := i.server(file, "second"); got.code != exitOK || len(args) != 1 {
		t.Errorf("a second one: %+v, %v", got, args)
	}
	wantParts(t, i.run("--client", "cursor", "--name", "second").stdout, "unchanged: it has this server already")
	for name, want := range map[string]string{"second": "removed from  " + file, "botwired": "removed from  " + file, "other2": "unchanged: it has no server other2"} {
		wantParts(t, i.run("--client", "cursor", "--remove", "--name", name).stdout, want)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != `{"mcpServers": {"other": {"command": "x"}}}` {
		t.Errorf("at last there is %s, %v", text, err)
	}
}

// uvx and npx keep a program for a while: a client whose file names that one loses its server.
func TestMCPInstallWarnsOfACache(t *testing.T) {
	for program, want := range map[string]string{
		"/home/ada/.cache/uv/archive-v0/mRvf/bin/botwired":                       "uv tool install botwired",
		"/home/ada/.npm/_npx/8f88/node_modules/@botwired/linux-x64/bin/botwired": "npm install --global botwired",
		"/home/ada/.local/share/uv/tools/botwired/bin/botwired":                  "",
		"/home/ada/agent/node_modules/@botwired/linux-x64/bin/botwired":          "",
	} {
		got := warningOfCache(program)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", program, got, want)
		}
	}
}

// --print shows what to put in, and writes nothing.
func TestMCPInstallPrints(t *testing.T) {
	i := &installTest{t, t.TempDir()}
	got := i.run("--client", "codex", "--print")
	file := filepath.Join(i.home, ".codex", "config.toml")
	wantParts(t, got.stdout, "[mcp_servers.botwired]\ncommand = ", "args = [\"mcp\"]\n")
	wantParts(t, got.stderr, file+" would hold this")
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("something is written: %v", err)
	}
	i.write(got.stdout, ".codex", "config.toml")
	wantParts(t, i.run("--client", "codex").stdout, "unchanged")
	wantParts(t, i.run("--client", "codex", "--remove", "--print").stdout, file+" would lose the server botwired")
	wantParts(t, i.run("--client", "codex", "--remove", "--print", "--name=x").stdout, "has no server x")
	if text, err := os.ReadFile(file); err != nil || string(text) != got.stdout {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func TestMCPInstallRefuses(t *testing.T) {
	i := &installTest{t, t.TempDir()}
	broken := i.write(`{"mcpServers": {`, ".cursor", "mcp.json")
	byHand := i.write("mcp_servers.botwired.command = \"x\"\n", ".codex", "config.toml")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--client", "nosuch"}, exitUsage, []string{`--client = "nosuch": expected one of claude, claude-code, codex,`}},
		{[]string{"--client", "cursor", "--name", "a b"}, exitUsage, []string{`--name = "a b": expected`}},
		{[]string{"--client", "cursor", "--namespace", "a b"}, exitUsage, []string{`--namespace = "a b": expected`}},
		{[]string{"--remove"}, exitUsage, []string{"--client is missing"}},
		{[]string{"--client", "claude", "--project"}, exitUsage, []string{"Claude Desktop has no file for a project"}},
		{[]string{"--client", "cursor", "--listen", "nowhere"}, exitError, []string{"listen", "nowhere"}},
		{[]string{"--client", "cursor"}, exitError, []string{broken + " is unchanged: not valid JSON", "mend it, and try again"}},
		{[]string{"--client", "cursor", "--print"}, exitError, []string{broken + " is unchanged"}},
		{[]string{"--client", "codex"}, exitError, []string{byHand + " is unchanged", `"botwired mcp install --client codex --print" shows what to put in`}},
		{[]string{"--client", "codex", "--remove"}, exitError, []string{byHand + " is unchanged", "take out the server botwired yourself"}},
	} {
		wantFailure(t, i.run(c.args...), c.code, c.want...)
	}
	for _, file := range []string{broken, byHand} {
		if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
			t.Errorf("beside %s: %v, %v", file, entries, err)
		}
	}
}

func TestMCPInstallListsClients(t *testing.T) {
	i := &installTest{t, t.TempDir()}
	wantParts(t, i.run().stdout, "No client has a file here. --client takes: claude, claude-code,")
	slash := &installTest{t, i.home + string(filepath.Separator)} // .claude.json is in the home itself
	wantParts(t, slash.run().stdout, "No client has a file here.")
	i.write("{}", ".cursor", "mcp.json")
	i.write("x", ".claude.json")
	no(t, os.MkdirAll(filepath.Join(i.home, ".codex"), 0o700))
	i.run("--client", "cursor")
	got := i.run("--json")
	var doc struct{ Clients []foundClient }
	no(t, json.Unmarshal([]byte(got.stdout), &doc))
	want := []foundClient{
		{"claude-code", "Claude Code", filepath.Join(i.home, ".claude.json"), "not valid JSON: line 1, column 1: invalid literal: x"},
		{"codex", "Codex", filepath.Join(i.home, ".codex", "config.toml"), "none"},
		{"cursor", "Cursor", filepath.Join(i.home, ".cursor", "mcp.json"), "configured"},
	}
	if diff := cmp.Diff(want, doc.Clients); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wantParts(t, i.run().stdout, "CLIENT", "cursor", "configured")
}

// A project's file is in the working directory, and others may read it.
func TestMCPInstallInAProject(t *testing.T) {
	i := &installTest{t, t.TempDir()}
	t.Chdir(t.TempDir())
	wantParts(t, i.run("--client", "claude-code", "--project").stdout, ".mcp.json")
	info, err := os.Stat(".mcp.json")
	if err != nil || info.Mode().Perm() != 0o644 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info, err)
	}
	wantParts(t, i.run("--project").stdout, "claude-code", "configured", ".mcp.json")
}
