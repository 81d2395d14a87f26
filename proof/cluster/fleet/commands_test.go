package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/proof/cluster"
	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/loopback"
	"github.com/botwired/botwired/proof/supervisor"
)

// host is one machine of a user: a home, a daemon with its settings in the environment, and commands beside it.
type host struct {
	home, address string
	settings      []string // NAME=VALUE
}

// newHost returns a host without a daemon. The settings are those of the environment.
func newHost(t *testing.T, settings ...string) *host {
	t.Helper()
	address, err := loopback.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return &host{home, address, append(settings,
		"BOTWIRED_LISTEN="+address, "BOTWIRED_DATA_DIR="+filepath.Join(home, "data"), "BOTWIRED_FLUSH_LINGER=1ms", "BOTWIRED_UPSTREAM_TIMEOUT=4s",
	)}
}

// serve starts the host's daemon. It ends with end, or with the test.
func (h *host) serve(t *testing.T) (d *Daemon, end func()) {
	t.Helper()
	process, err := child.Start(t.Context(), h.home, slices.Concat([]string{"/usr/bin/env"}, h.settings, []string{program, "serve"})...)
	if err != nil {
		t.Fatal(err)
	}
	d, ended := At(process.URL(), ""), false
	d.Process = process
	end = func() {
		if !ended {
			ended = true
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	return d, end
}

// commandWithin bounds a command. It only ends a hang.
const commandWithin = 2 * time.Minute

// run runs a command of botwired, and returns all that it has printed, and its exit code. A crash fails the test.
func (h *host) run(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	return h.runUntilItPrints(t, nil, args...)
}

// runUntilItPrints is run. If asks is not nil, it calls asks until the command prints, and then interrupts it.
func (h *host) runUntilItPrints(t *testing.T, asks func(), args ...string) (text string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandWithin)
	defer cancel()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append([]string{"HOME=" + h.home, "PATH=" + os.Getenv("PATH")}, h.settings...)
	out := &printed{onLine: func() {}}
	if asks != nil {
		out.onLine = interrupt
	}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Start()
	if err == nil && asks != nil {
		for ctx.Err() == nil {
			asks()
		}
	}
	err = errors.Join(err, cmd.Wait())
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && !errors.Is(err, context.Canceled) {
		t.Fatalf("%s: %v", args, err)
	}
	text, code = out.text.String(), cmd.ProcessState.ExitCode()
	for _, sign := range []string{"goroutine ", "panic:", "runtime error", "SIGSEGV", ".go:"} {
		if strings.Contains(text, sign) {
			t.Errorf("botwired %s crashes:\n%s", strings.Join(args, " "), text)
			break
		}
	}
	if code < 0 {
		t.Errorf("botwired %s ended with %v:\n%s", strings.Join(args, " "), cmd.ProcessState, text)
	}
	return text, code
}

// printed holds what a command prints. os/exec calls Write from one goroutine.
type printed struct {
	text   bytes.Buffer
	onLine func() // called when something is printed
}

func (p *printed) Write(b []byte) (int, error) {
	p.onLine()
	return p.text.Write(b)
}

// must runs a command that has to succeed, and to print the parts.
func (h *host) must(t *testing.T, command string, parts ...string) string {
	t.Helper()
	text, code := h.run(t, strings.Fields(command)...)
	if code != 0 {
		t.Fatalf("botwired %s: %d\n%s", command, code, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("botwired %s says no %q:\n%s", command, part, text)
		}
	}
	return text
}

// tried are command lines in an order in which they find something to do. Those of which needs is empty
// succeed with and without a daemon.
var tried = []struct {
	line  string
	needs string // what it takes for exit 0
}{
	{"set shop k one", "daemon"},
	{"set shop k two", "daemon"},
	{"get shop k", "daemon"},
	{"list", "daemon"},
	{"list shop", "daemon"},
	{"flush", "daemon"},
	{"history shop k", "daemon"},
	{"diff shop k", "daemon"},
	{"undo shop k --yes", "daemon"},
	{"pending", "daemon"},
	{"pending drop shop k --yes", "a pending write"},
	{"dead-letters", "daemon"},
	{"dead-letters show 1", "a dead letter"},
	{"dead-letters retry 1", "a dead letter"},
	{"dead-letters delete 1", "a dead letter"},
	{"export --all", "daemon"},
	{"import HOME/entries.jsonl --partial", "daemon"},
	{"status", "daemon"},
	{"monitor", "a request"},
	{"doctor", "a sound machine"},
	{"seal status", "sealed"},
	{"seal rewrap shop", "sealed entries"},
	{"seal adopt shop", "sealed"},
	{"seal adopt shop --delete --yes", "sealed"},
	{"seal keygen HOME/new-keys", ""},
	{"forget shop --yes", "daemon"},
	{"restore shop", "daemon"},
	{"restore --all", "daemon"},
	{"delete shop k", "daemon"},
	{"purge shop --yes", "daemon"},
	{"mcp", ""},
	{"mcp install --client cursor --print", ""},
	{"run -- true", ""},
	{"recover", "no daemon"},
	{"config", ""},
	{"config validate", ""},
	{"config init HOME/botwired.yaml", ""},
	{"completion bash", ""}, {"completion fish", ""}, {"completion powershell", ""}, {"completion zsh", ""},
	{"help", ""},
	{"version", ""},
}

// apart are the commands that run anyway, or know nothing of an engine.
var apart = map[string]string{
	"serve":    "each case starts it",
	"selfhost": "the cases of botwire start it",
	"drill":    "it has a daemon and an upstream of its own, and a test in cmd/botwired",
}

// Each command ends without a crash in front of each engine, plain and sealed, with a daemon and without one. It succeeds
// where it has all that it needs.
func TestEveryCommandInFrontOfEveryEngine(t *testing.T) {
	wantAllCommands(t)
	for _, engine := range []string{"botwire", "embedded", "nats"} {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sealed %v", engine, sealed), func(t *testing.T) {
				t.Parallel()
				settings := []string{"BOTWIRED_UPSTREAM_URL=" + upstreamOf(t, engine), "BOTWIRED_UPSTREAM_NATS_REPLICAS=1"}
				if sealed {
					settings = append(settings, sealedBy(t, string(seal.Generate()), "shop")...)
				}
				h := newHost(t, settings...)
				d, end := h.serve(t)
				h.tryAll(t, d, sealed && engine != "embedded")
				end()
				h.tryAll(t, nil, false)
			})
		}
	}
}

// tryAll runs all command lines beside a daemon; nil if there is none.
func (h *host) tryAll(t *testing.T, d *Daemon, sealed bool) {
	t.Helper()
	for _, one := range tried {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "entries.jsonl"), []byte(`{"namespace":"shop","key":"imported","value":"v"}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args := strings.Fields(strings.ReplaceAll(one.line, "HOME", home))
		var asks func()
		if one.line == "monitor" && d != nil {
			asks = func() { _, _, _ = d.Get(t.Context(), check.Entry{Namespace: "shop", Key: "k"}) }
		}
		text, code := h.runUntilItPrints(t, asks, args...)
		works := map[string]bool{"": true, "daemon": d != nil, "sealed": sealed, "no daemon": d == nil}
		if succeeds, known := works[one.needs]; known && succeeds != (code == 0) {
			t.Errorf("botwired %s ends with %d, daemon %v, sealed %v:\n%s", one.line, code, d != nil, sealed, text)
		}
	}
}

// wantAllCommands compares the table with the commands that the program completes.
func wantAllCommands(t *testing.T) {
	t.Helper()
	h := newHost(t)
	under := func(above ...string) (names []string) {
		text, _ := h.run(t, slices.Concat([]string{"__complete"}, above, []string{""})...)
		for line := range strings.Lines(text) {
			if name, _, ok := strings.Cut(line, "\t"); ok {
				names = append(names, name)
			}
		}
		return names
	}
	is := func(command string) bool {
		return slices.ContainsFunc(tried, func(one struct{ line, needs string }) bool { return strings.HasPrefix(one.line+" ", command+" ") })
	}
	for _, name := range under() {
		if _, elsewhere := apart[name]; elsewhere || name == "help" {
			continue
		}
		for _, sub := range append(under(name), "") {
			if command := strings.TrimSpace(name + " " + sub); !is(command) {
				t.Errorf("nothing runs botwired %s", command)
			}
		}
	}
}

// upstreamOf returns the URL of an empty upstream, which ends with the test.
func upstreamOf(t *testing.T, engine string) string {
	t.Helper()
	switch engine {
	case "nats":
		return cluster.RunServer(t).URL()
	case "botwire":
		process, err := child.Start(t.Context(), t.TempDir(), program, "selfhost", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "memory.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := supervisor.Stop(process, stopLimit); err != nil {
				t.Error(err)
			}
		})
		return process.URL()
	}
	return engine
}

// sealedBy returns the settings that seal a namespace with the keys of a file's text.
func sealedBy(t *testing.T, text, namespace string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"BOTWIRED_SEAL_KEY_FILE=" + file, fmt.Sprintf(`BOTWIRED_NAMESPACES=[{"match":%q,"sealed":true}]`, namespace)}
}

// A plain namespace of a bucket moves in, and its key is rotated, as docs/sealed.md says.
func TestRotationInFrontOfABucket(t *testing.T) {
	bucket := []string{"BOTWIRED_UPSTREAM_URL=" + cluster.RunServer(t).URL(), "BOTWIRED_UPSTREAM_NATS_REPLICAS=1"}
	plain := newHost(t, bucket...)
	_, end := plain.serve(t)
	plain.must(t, "set shop a plain")
	plain.must(t, "set shop b plain")
	plain.must(t, "flush")
	end()

	old := string(seal.Generate())
	before := newHost(t, slices.Concat(bucket, sealedBy(t, old, "shop"))...)
	_, end = before.serve(t)
	before.must(t, "seal status", "shop: 2 entries in the plain namespace")
	before.must(t, "seal adopt shop", "2 entries written to be sealed")
	before.must(t, "seal adopt shop --delete --yes", "2 plain entries deleted")
	before.must(t, "set shop c sealed")
	before.must(t, "flush")
	if text := before.must(t, "seal status", "opens 3 entries, and seals"); strings.Contains(text, "plain namespace") {
		t.Errorf("after the plain entries were deleted:\n%s", text)
	}
	end()

	_, fresh, _ := strings.Cut(string(seal.Generate()), "\nseal ")
	after := newHost(t, slices.Concat(bucket, sealedBy(t, strings.Replace(old, "\nseal ", "\nopen ", 1)+"seal "+fresh, "shop"))...)
	_, end = after.serve(t)
	after.must(t, "get shop a", "plain")
	after.must(t, "seal rewrap shop", "3 entries of 3 written again")
	after.must(t, "flush")
	after.must(t, "seal status", "opens 3 entries, and seals", "opens no entry: its line may go")
	after.must(t, "seal status --json", `"sealed_by":"environment BOTWIRED_NAMESPACES, match: shop"`)
	after.must(t, "seal adopt shop", "0 entries written")
	after.must(t, "get shop c", "sealed")
	end()
	// Without a daemon it looks at the bucket all the same.
	after.must(t, "seal status shop", "opens 3 entries, and seals")
}
