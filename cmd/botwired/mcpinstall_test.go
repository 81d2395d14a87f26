package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/mcpconfig"
	"github.com/botwired/botwired/internal/service"
)

// installTest has a home directory for "botwired mcp install".
type installTest struct {
	t       *testing.T
	home    string
	environ []string
}

func newInstallTest(t *testing.T) *installTest {
	home := t.TempDir()
	for _, variable := range []string{"HOME", "USERPROFILE"} {
		t.Setenv(variable, home)
	}
	t.Setenv("APPDATA", filepath.Join(home, "AppData"))
	t.Setenv("HERMES_HOME", "")
	t.Setenv("PATH", home)
	return &installTest{t: t, home: home}
}

func (i *installTest) run(args ...string) outcome {
	i.t.Helper()
	var stdout, stderr bytes.Buffer
	p := newProcess(term.Terminal{
		Environ:    append([]string{"HOME=" + i.home}, i.environ...),
		Stdin:      strings.NewReader(""),
		Stdout:     &stdout,
		Stderr:     &stderr,
		IsTerminal: func(any) bool { return false },
		Size:       term.SizeOf,
		Ticks:      term.EverySecond,
		Now:        func() time.Time { return time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC) },
	}, append([]string{"mcp", "install"}, args...), &service.Inherited{})
	code := p.Run(i.t.Context())
	return outcome{code, stdout.String(), stderr.String()}
}

func (i *installTest) write(text string, at ...string) string {
	i.t.Helper()
	file := filepath.Join(append([]string{i.home}, at...)...)
	no(i.t, os.MkdirAll(filepath.Dir(file), 0o700))
	no(i.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// server returns a server's entry in a client's file.
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
	i := newInstallTest(t)
	file := i.write(`{"mcpServers": {"other": {"command": "x"}}}`, ".cursor", "mcp.json")
	t.Chdir(i.home)
	got := i.run("--client", "cursor", "--namespace=team", "--read-only", "--data-dir", "data", "--upstream", "embedded", "--config", i.write("", "c.yaml"))
	wantParts(t, got.stdout, "changed  "+file+"\n", "backup   "+file+".botwired.bak\n", "next     Cursor: restart it\n")
	command, args := i.server(file, "botwired")
	self, err := os.Executable()
	no(t, err)
	dir, err := os.Getwd() // with symbolic links resolved
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
	if _, args := i.server(file, "second"); got.code != cli.ExitOK || len(args) != 1 {
		t.Errorf("a second one: %+v, %v", got, args)
	}
	wantParts(t, i.run("--client", "cursor", "--name", "second").stdout, "unchanged")
	for name, want := range map[string]string{"second": "changed  " + file, "botwired": "changed  " + file, "other2": "unchanged"} {
		wantParts(t, i.run("--client", "cursor", "--remove", "--name", name).stdout, want)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{\"mcpServers\": {\"other\": {\"command\": \"x\"}\n  }}" {
		t.Errorf("at last there is %s, %v", text, err)
	}
}

// A client starts its servers in its own directory, so paths are made absolute. The name of a context
// stays a name.
func TestMCPInstallWritesNoRelativePath(t *testing.T) {
	i := newInstallTest(t)
	file := filepath.Join(i.home, ".cursor", "mcp.json")
	i.write("{}", "ctx.json")
	i.write("{}", ".config", "nats", "context", "ctx.json")
	i.write("a-token-that-is-long-enough-for-botwired", "token")
	t.Chdir(i.home)
	dir, err := os.Getwd() // with symbolic links resolved
	no(t, err)
	for given, want := range map[string]string{"./ctx.json": filepath.Join(dir, "ctx.json"), "ctx": "ctx"} {
		got := i.run("--client", "cursor", "--auth-token-file", "token", "--upstream", "nats://localhost", "--upstream-nats-context", given)
		_, args := i.server(file, "botwired")
		if !slices.Contains(args, "--upstream-nats-context="+want) || !slices.Contains(args, "--auth-token-file="+filepath.Join(dir, "token")) {
			t.Errorf("%s: %+v, %q", given, got, args)
		}
	}

	headers := func(file string) string {
		quoted, err := json.Marshal(file)
		no(t, err)
		return `--upstream-headers={"X-Team": "blue", "X-Key": {"file": ` + string(quoted) + `}}`
	}
	i.run("--client", "cursor", "--remove")
	wantFailure(t, i.run("--client", "cursor", headers("token")), cli.ExitUsage,
		`--upstream-headers: the file of X-Key is "token": expected an absolute path or one from ~/`)
	if _, args := i.server(file, "botwired"); args != nil {
		t.Errorf("the relative path of a header's file is refused, and written: %q", args)
	}
	for _, accepted := range []string{headers(filepath.Join(dir, "token")), headers("~/token")} {
		got := i.run("--client", "cursor", accepted)
		if _, args := i.server(file, "botwired"); got.code != cli.ExitOK || !slices.Contains(args, accepted) {
			t.Errorf("%s: %+v, %q", accepted, got, args)
		}
	}
}

// A client's server has none of this shell's variables: its settings are flags in the file of every client, and a
// secret is in none.
func TestMCPInstallTakesTheEnvironmentsSettings(t *testing.T) {
	i := newInstallTest(t)
	i.write("a-token-that-is-long-enough-for-botwired", "token")
	i.write("upstream: {concurrency: 3}", "c.yaml")
	t.Chdir(i.home)
	dir, err := os.Getwd() // with symbolic links resolved
	no(t, err)
	const namespaces = `[{"match": "a-*", "flush.linger": "3s"}, {"match": "*", "offline": "assume-absent"}]`
	i.environ = []string{
		"BOTWIRED_LISTEN=127.0.0.1:7777", "BOTWIRED_UPSTREAM_URL=embedded", "BOTWIRED_DATA_DIR=data", "BOTWIRED_LOG_LEVEL=debug",
		"BOTWIRED_AUTH_TOKEN_FILE=token", "BOTWIRED_NAMESPACES=" + namespaces, "BOTWIRED_CONFIG=c.yaml", "BOTWIRED_AUTHOR=me", "OTHER=x",
		`BOTWIRED_UPSTREAM_HEADERS={"Authorization": "Bearer S3CRET"}`,
	}
	want := []string{
		"mcp", "--config=" + filepath.Join(dir, "c.yaml"), "--listen=127.0.0.1:8888", "--data-dir=" + filepath.Join(dir, "data"), "--upstream-url=embedded",
		"--auth-token-file=" + filepath.Join(dir, "token"), "--namespaces=" + namespaces, "--log-level=debug",
	}
	slices.Sort(want)
	for _, client := range mcpconfig.Clients() {
		got := i.run("--client", client.Name, "--listen", "127.0.0.1:8888", "--print") // a flag comes before its variable
		list := regexp.MustCompile(`(?s)\[\s*"mcp".*?"(,?\s*\]\n|\s*\])`).FindString(got.stdout)
		if client.IsProvider { // it has the flags alone
			_, list, _ = strings.Cut(got.stdout, `"flags": [`)
			list, _, _ = strings.Cut(list, "\n  ]")
			list = `["mcp", ` + list + "]"
		}
		var args []string
		if err := json.Unmarshal([]byte(list), &args); err != nil {
			t.Errorf("%s: %v: %s", client.Name, err, got.stdout)
		}
		slices.Sort(args)
		if diff := cmp.Diff(want, args); diff != "" || strings.Contains(got.stdout+got.stderr, "S3CRET") {
			t.Errorf("%s: %+v (-want +got):\n%s", client.Name, got, diff)
		}
		wantParts(t, got.stderr, "the client's server does not get BOTWIRED_UPSTREAM_HEADERS: it holds a secret")
		if client.Name == "codex" {
			continue // its own command would write the file
		}
		wantParts(t, i.run("--client", client.Name).stderr, "does not get BOTWIRED_UPSTREAM_HEADERS")
		file, err := client.File(false)
		no(t, err)
		if client.IsProvider {
			file = filepath.Join(file, "botwired.json")
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "--listen=127.0.0.1:7777") || strings.Contains(string(text), "S3CRET") {
			t.Errorf("%s: %v: %s", client.Name, err, text)
		}
		if got := i.run("--client", client.Name, "--remove"); strings.Contains(got.stderr, "does not get") {
			t.Errorf("%s: %+v", client.Name, got)
		}
	}
	headers := `BOTWIRED_UPSTREAM_HEADERS={"Authorization": {"file": ` + mustJSON(t, filepath.Join(dir, "token")) + `}}`
	i.environ = []string{headers}
	got := i.run("--client", "cursor")
	if _, args := i.server(filepath.Join(i.home, ".cursor", "mcp.json"), "botwired"); !slices.Contains(args, "--upstream-headers="+strings.TrimPrefix(headers, "BOTWIRED_UPSTREAM_HEADERS=")) || strings.Contains(got.stderr, "does not get") {
		t.Errorf("the name of a secret's file is no secret: %q, %+v", args, got)
	}
}

func mustJSON(t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(text)
	no(t, err)
	return string(out)
}

// uvx and npx run programs from a cache: a client whose file names such a program loses its server when
// the cache is emptied.
func TestMCPInstallWarnsOfACache(t *testing.T) {
	for program, want := range map[string]string{
		"/home/ada/.cache/uv/archive-v0/mRvf/bin/botwired":                       "uv tool install botwired",
		"/home/ada/.npm/_npx/8f88/node_modules/@botwired/linux-x64/bin/botwired": "npm install --global botwired",
		"/home/ada/.local/share/uv/tools/botwired/bin/botwired":                  "",
		"/home/ada/agent/node_modules/@botwired/linux-x64/bin/botwired":          "",
	} {
		got := cli.WarningOfCache(program)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", program, got, want)
		}
	}
}

// --print shows the entry, and writes nothing.
func TestMCPInstallPrints(t *testing.T) {
	i := newInstallTest(t)
	got := i.run("--client", "codex", "--print")
	file := filepath.Join(i.home, ".codex", "config.toml")
	wantParts(t, got.stdout, "[mcp_servers.botwired]\ncommand = ", "args = [\"mcp\"]\n")
	wantParts(t, got.stderr, file+" would hold this")
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("something is written: %v", err)
	}
	got = i.run("--client", "cursor", "--print", "--remove")
	wantParts(t, got.stdout, `"botwired": {`)
	wantParts(t, got.stderr, filepath.Join(i.home, ".cursor", "mcp.json")+" would lose this")
}

func TestMCPInstallRefuses(t *testing.T) {
	i := newInstallTest(t)
	broken := i.write(`{"mcpServers": {`, ".cursor", "mcp.json")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--client", "nosuch"}, cli.ExitUsage, []string{`--client = "nosuch": expected one of claude, claude-code, codex,`}},
		{[]string{"--client", "cursor", "--name", "a b"}, cli.ExitUsage, []string{`--name = "a b": expected`}},
		{[]string{"--client", "cursor", "--namespace", "a b"}, cli.ExitUsage, []string{`--namespace = "a b": expected`}},
		{[]string{"--remove"}, cli.ExitUsage, []string{`say which client: --client NAME, one of claude,`}},
		{[]string{"--client", "claude", "--project"}, cli.ExitError, []string{"Claude Desktop has no file of a project"}},
		{[]string{"--client", "cursor", "--listen", "nowhere"}, cli.ExitError, []string{"listen", "nowhere"}},
		{[]string{"--client", "cursor"}, cli.ExitError, []string{broken + " is unchanged: not valid JSON", `"botwired mcp install --client cursor --print" shows what to put in`}},
		{[]string{"--client", "codex"}, cli.ExitError, []string{"Codex is not in PATH"}},
	} {
		wantFailure(t, i.run(c.args...), c.code, c.want...)
	}
	if entries, err := os.ReadDir(filepath.Dir(broken)); err != nil || len(entries) != 1 {
		t.Errorf("beside %s: %v, %v", broken, entries, err)
	}
}

// A project's file is in the working directory, and others may read it.
func TestMCPInstallInAProject(t *testing.T) {
	i := newInstallTest(t)
	t.Chdir(t.TempDir())
	wantParts(t, i.run("--client", "claude-code", "--project").stdout, ".mcp.json")
	info, err := os.Stat(".mcp.json")
	if err != nil || info.Mode().Perm() != 0o644 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info, err)
	}
}

// Hermes' provider writes every turn by itself: it is not installed where everybody would read them, but by name.
func TestMCPInstallMakesNoTurnsPublic(t *testing.T) {
	i := newInstallTest(t)
	const public = "the namespace hermes of https://botwire.dev, where everybody can read and write it: seal hermes*"
	wantFailure(t, i.run("--client", "hermes"), cli.ExitUsage, public)
	if _, err := os.Stat(filepath.Join(i.home, ".hermes")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has written something all the same: %v", err)
	}
	key := filepath.Join(i.home, "keys")
	if got := inHome(t, "seal", "keygen", key); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	sealed := i.write(fmt.Sprintf("seal: {key_file: %q}\nnamespaces: [{match: \"hermes*\", sealed: true}]\n", key), "sealed.yaml")
	for _, private := range [][]string{
		{"--client", "hermes", "--namespace", "hidden-in-3f9a"},
		{"--client", "hermes", "--upstream", "http://127.0.0.1:2690"},
		{"--client", "hermes", "--config", sealed},
		{"--client", "hermes", "--remove"},
		{"--client", "cursor"}, // its model writes where its user says
	} {
		if got := i.run(private...); got.code != 0 || got.stderr != "" {
			t.Errorf("%q: %+v", private, got)
		}
	}
}

// Who names a namespace hears at once that everybody can read it: the pages that seal it may not have been followed.
func TestMCPInstallSaysWhatIsPublic(t *testing.T) {
	i := newInstallTest(t)
	const public = "public   the namespace mine-memory of https://botwire.dev: everybody who guesses its name can read and write it. docs/one-memory.md seals it\n"
	for _, client := range []string{"hermes", "cursor"} {
		wantParts(t, i.run("--client", client, "--namespace", "mine-memory").stdout, "changed", public)
		for _, private := range [][]string{{"--upstream", "http://127.0.0.1:2690"}, {"--remove"}} {
			if got := i.run(append(private, "--client", client, "--namespace", "mine-memory")...); got.code != 0 || strings.Contains(got.stdout, "public") {
				t.Errorf("%s %q: %+v", client, private, got)
			}
		}
	}
}
