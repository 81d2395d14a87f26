package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli"
)

// besideTest holds what the tests of "botwired run" share: an upstream, a directory and an address.
type besideTest struct {
	t                *testing.T
	program, address string
	dir              string
	service          *memoryService
}

func newBesideTest(t *testing.T, program string) *besideTest {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() { // a daemon may still be ending and writing
		eventually(t, func() error { return os.RemoveAll(dir) })
	})
	return &besideTest{t, program, freeAddress(t), dir, newMemoryService(t)}
}

// settings returns the flags for run and for serve.
func (b *besideTest) settings(more ...string) []string {
	return append([]string{"--listen", b.address, "--data-dir", b.dir, "--upstream-url", b.service.url(),
		"--upstream-late-window", "500ms", "--flush-drain-timeout", "1s"}, more...)
}

// running is a "botwired run" whose command is an sh script. In the script, set_ writes an entry.
type running struct {
	*child
	stdin  io.WriteCloser
	pipe   *os.File // of stdout
	stdout *bufio.Reader
}

func (b *besideTest) run(script string, flags ...string) *running {
	b.t.Helper()
	r := &running{child: prepareChild(b.t, b.program, b.dir, b.address, b.service.url())}
	script = `set_() { "$0" set "$@" --listen ` + b.address + ` >&2; }; ` + script
	args := append(append([]string{"run"}, b.settings(flags...)...), "--", "sh", "-c", script, b.program)
	r.cmd, r.stderr = command(b.t.Context(), b.t, b.program, args...)
	r.cmd.Env = append(r.cmd.Env, "PATH="+os.Getenv("PATH"), "NO_PROXY=example.org")
	var err error
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		b.t.Fatal(err)
	}
	pipe, write, err := os.Pipe() // Wait does not wait for its reader
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = pipe.Close() })
	r.pipe, r.cmd.Stdout, r.stdout = pipe, write, bufio.NewReader(pipe)
	r.cmd.SysProcAttr = ownGroup()
	r.begin()
	no(b.t, write.Close())
	b.t.Cleanup(r.killCommand)
	return r
}

// killCommand also kills the command, which outlives a killed run. The run's Wait waits until stderr is
// closed, and the command has it open.
func (r *running) killCommand() {
	_ = r.stdin.Close() // the run may have closed it
	select {
	case <-r.exited:
	default: // so the process group still exists, and its id is not reused
		killGroup(r.cmd.Process.Pid)
	}
}

// says waits for a line of the command's output.
func (r *running) says(want string) {
	r.t.Helper()
	no(r.t, r.pipe.SetReadDeadline(time.Now().Add(2*time.Minute)))
	if line, err := r.stdout.ReadString('\n'); err != nil || line != want+"\n" {
		r.t.Fatalf("the command says %q, %v, want %q; stderr: %s", line, err, want, r.stderr)
	}
}

// awaitNoDaemon waits until nothing listens at the address.
func (b *besideTest) awaitNoDaemon() {
	b.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	eventually(b.t, func() error {
		resp, err := client.Get("http://" + b.address + "/_botwired/livez")
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("the daemon is still there: %w", err)
		}
		return nil
	})
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// No daemon runs, and upstream is down: the exit code is the command's, the writes are kept, and the
// next start sends them.
func testRunKeepsPending(t *testing.T, program string) {
	b := newBesideTest(t, program)
	first := b.run(`echo "$BOTWIRE_URL $NO_PROXY"; set_ n k1 v; set_ n k2 v; exit 7`)
	first.says("http://" + b.address + "/_botwired/as/sh example.org,127.0.0.1,localhost")
	first.wantExit(2*time.Minute, 7)
	wantParts(t, first.stderr.String(), "botwired: 2 writes are on this disk and go to "+b.service.url()+" with the next start of botwired")
	b.awaitNoDaemon()
	b.service.up()
	second := b.run(`set_ n k3 v`, "--flush-drain-timeout", "1m")
	second.wantExit(2*time.Minute, 0)
	for _, key := range []string{"n/k1", "n/k2", "n/k3"} {
		if got, err := b.service.value(key); got != "v" || err != nil {
			t.Errorf("upstream holds %q for %s, %v", got, key, err)
		}
	}
	if strings.Contains(second.stderr.String(), "on this disk") {
		t.Errorf("it says that something is pending: %s", second.stderr)
	}
}

// A daemon that ran before goes on running.
func testRunUsesADaemon(t *testing.T, program string) {
	b := newBesideTest(t, program)
	d := startChild(t, program, b.dir, b.address, b.service.url())
	r := &running{}
	r.child = prepareChild(t, program, b.dir, b.address, b.service.url())
	r.cmd, r.stderr = command(t.Context(), t, program, "run", "--listen", b.address, "--flush-drain-timeout", "1s", "--",
		program, "set", "n", "k", "v", "--listen", b.address)
	r.begin()
	r.wantExit(2*time.Minute, 0)
	wantParts(t, r.stderr.String(), "botwired: 1 write is still pending: the daemon at "+b.address, "keeps it and goes on")
	if n, err := d.pending(); n != 1 || err != nil {
		t.Errorf("the daemon has %d pending, %v", n, err)
	}
}

// A run configured for one upstream does not use a daemon with another.
func testRunRefusesAnotherUpstream(t *testing.T, program string) {
	b := newBesideTest(t, program)
	d := startChild(t, program, b.dir, b.address, b.service.url())
	failing(t, program, []string{"run", "--listen", b.address, "--data-dir", t.TempDir(), "--upstream", "embedded", "--",
		program, "set", "n", "k", "v", "--listen", b.address},
		cli.ExitError, `upstream.url = "embedded" (flag --upstream-url)`, b.address, "carries writes to "+b.service.url())
	if n, err := d.pending(); n != 0 || err != nil {
		t.Errorf("the daemon has %d pending, %v", n, err)
	}
}

func testRunPassesSignalsOn(t *testing.T, program string) {
	b := newBesideTest(t, program)
	r := b.run(`n=0; trap 'n=$((n+1)); echo $n' TERM; trap 'exit 1$n' USR1; echo up; while :; do sleep 0.05; done`)
	r.says("up")
	r.signal(syscall.SIGTERM)
	r.says("1")
	r.signal(syscall.SIGTERM)
	r.says("2")
	r.signal(userSignal)
	r.wantExit(2*time.Minute, 12) // each signal came once
	r = b.run(`echo up; exec sleep 600`)
	r.says("up")
	r.signal(syscall.SIGTERM)
	r.wantExit(2*time.Minute, attach.ExitSignal+int(syscall.SIGTERM))
}

// A command that cannot be run starts no daemon either.
func testRunFindsNoCommand(t *testing.T, program string) {
	b := newBesideTest(t, program)
	file := filepath.Join(t.TempDir(), "file")
	no(t, os.WriteFile(file, nil, 0o600))
	run := func(name string) []string { return append(append([]string{"run"}, b.settings()...), "--", name) }
	failing(t, program, run("nosuch"), attach.ExitNotFound, "nosuch: command not found")
	failing(t, program, run(filepath.Join(b.dir, "nosuch")), attach.ExitNotFound, "command not found")
	failing(t, program, run(file), attach.ExitNotRun, file, "cannot be run: permission denied")
	failing(t, program, []string{"run", "--listen", "unix:///run/s", "--", "true"}, cli.ExitError, "listen", "127.0.0.1:2689")
	failing(t, program, []string{"run", "--listen", "127.0.0.1:0", "--", "true"}, cli.ExitError, "listen", "port")
	failing(t, program, []string{"run"}, cli.ExitUsage, "the arguments are missing", "-- COMMAND")
	if _, err := os.Stat(b.dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
}

// The first run's daemon serves the second run's command after the first has ended, and ends after the
// second.
func testTwoRunsShareADaemon(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	script := `echo up; read line; set_ n "$line" v`
	long := "--flush-drain-timeout=1m"
	first := b.run(script, long)
	first.says("up")
	second := b.run(script, long)
	second.says("up")
	for i, r := range []*running{first, second} {
		if _, err := fmt.Fprintf(r.stdin, "k%d\n", i); err != nil {
			t.Fatal(err)
		}
		r.wantExit(2*time.Minute, 0)
	}
	b.awaitNoDaemon()
	for _, key := range []string{"n/k0", "n/k1"} {
		if got, err := b.service.value(key); got != "v" || err != nil {
			t.Errorf("upstream holds %q for %s, %v", got, key, err)
		}
	}
}

// If several runs find no daemon, one starts it, and no other tries.
func testRunsStartAtOnce(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	var runs []*running
	for range 4 {
		runs = append(runs, b.run(`echo up; read line`))
	}
	for _, r := range runs {
		r.says("up")
	}
	for _, r := range runs {
		no(t, r.stdin.Close())
		r.wantExit(2*time.Minute, 1) // read has found no line
		if text := r.stderr.String(); text != "" {
			t.Errorf("on stderr: %s", text)
		}
	}
	b.awaitNoDaemon()
}

// A daemon that cannot start says why, in run's own line.
func testRunWithoutADaemon(t *testing.T, program string) {
	b := newBesideTest(t, program)
	startChild(t, program, b.dir, freeAddress(t), b.service.url())
	failing(t, program, append(append([]string{"run"}, b.settings()...), "--", program, "version"),
		cli.ExitError, "has ended before it was ready: data_dir = ", "another botwired uses it")
}

// A daemon does not outlive the run that started it, even if the run is killed.
func testRunIsKilled(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	r := b.run(`set_ n k v; echo up; read line`, "--flush-drain-timeout=1m", "--flush-linger=5s")
	r.says("up")
	no(t, r.cmd.Process.Kill())
	no(t, r.stdin.Close()) // the command goes on, and has stderr open
	b.awaitNoDaemon()
	if got, err := b.service.value("n/k"); got != "v" || err != nil {
		t.Errorf("upstream holds %q, %v", got, err)
	}
}

// A daemon that ends before its command is started again, at the address that the command knows: the configured one,
// or the one that run has chosen because another program has that.
func testRunStartsItsDaemonAgain(t *testing.T, program string) {
	for _, taken := range []bool{false, true} {
		b := newBesideTest(t, program)
		b.service.up()
		if taken {
			other := httptest.NewServer(http.NotFoundHandler())
			defer other.Close()
			b.address = strings.TrimPrefix(other.URL, "http://")
		}
		r := b.run(`set -e; at=${BOTWIRE_URL#http://}; at=${at%%/*}; "$0" set n k v --listen $at >&2; echo up
			read line; until "$0" set n l v --listen $at >&2; do sleep 0.1; done; "$0" get n k --listen $at; echo`, "--flush-drain-timeout=1m")
		r.says("up")
		killDaemon(t, b.dir)
		eventually(t, func() error {
			if text := r.stderr.String(); !strings.Contains(text, "botwired: the daemon has ended before its command, has kept every acknowledged write, and is started again: ") {
				return errors.New(text)
			}
			return nil
		})
		_, err := fmt.Fprintln(r.stdin)
		no(t, err)
		r.says("v")
		r.wantExit(2*time.Minute, 0)
		for _, key := range []string{"n/k", "n/l"} {
			if got, err := b.service.value(key); got != "v" || err != nil {
				t.Errorf("upstream holds %q for %s, %v", got, key, err)
			}
		}
	}
}

// If the daemon cannot be started again at first, run tries until it can, and says so once.
func testRunTriesUntilItsDaemonStarts(t *testing.T, program string) {
	b := newBesideTest(t, program)
	b.service.up()
	r := b.run(`echo up; read line; until set_ n k v; do sleep 0.1; done; "$0" get n k --listen `+b.address+`; echo`, "--flush-drain-timeout=1m")
	r.says("up")
	format := filepath.Join(b.dir, "journal", "FORMAT")
	right, err := os.ReadFile(format)
	no(t, err)
	no(t, os.WriteFile(format, []byte("botwired journal 99\n"), 0o600))
	killDaemon(t, b.dir)
	const said = "botwired: no daemon runs beside the command: "
	eventually(t, func() error {
		if text := r.stderr.String(); !strings.Contains(text, said) || !strings.Contains(text, "run tries again until the command ends") {
			return errors.New(text)
		}
		return nil
	})
	no(t, os.WriteFile(format, right, 0o600))
	_, err = fmt.Fprintln(r.stdin)
	no(t, err)
	r.says("v")
	r.wantExit(2*time.Minute, 0)
	if text := r.stderr.String(); strings.Count(text, said) != 1 {
		t.Errorf("on stderr: %s", text)
	}
}

func testRunWithAToken(t *testing.T, program string) {
	b := newBesideTest(t, program)
	file := filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(file, []byte("s3/cret\n"), 0o600))
	r := b.run(`echo "$BOTWIRE_URL"`, "--auth-token-file", file)
	r.says("http://x:s3%2Fcret@" + b.address + "/_botwired/as/sh")
	r.wantExit(2*time.Minute, 0)
	log, err := os.ReadFile(filepath.Join(b.dir, "run.log"))
	no(t, err)
	if strings.Contains(r.stderr.String()+string(log), "cret") {
		t.Errorf("the token is on stderr, %s, or in the log, %s", r.stderr, log)
	}
}
