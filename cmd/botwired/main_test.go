package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
	"github.com/botwired/botwired/proof/loopback"
)

func TestMain(m *testing.M) {
	// A command that starts its own program as a daemon starts this test binary: it must not run the
	// tests again.
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, "this is no botwired, but its tests")
		os.Exit(cli.ExitError)
	}
	for _, each := range os.Environ() {
		if name, _, _ := strings.Cut(each, "="); strings.HasPrefix(name, "BOTWIRED_") {
			_ = os.Unsetenv(name) // a setting of this machine's daemon
		}
	}
	goleak.VerifyTestMain(m)
}

func newHome(t *testing.T) (home string) {
	t.Helper()
	home = homeOf(t)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	return home
}

type outcome struct {
	code           int
	stdout, stderr string
}

// botwired runs the program in an empty home directory, with a time limit for commands that should end
// by themselves.
func botwired(t *testing.T, args ...string) outcome {
	t.Helper()
	newHome(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// at runs the program against a daemon. adjust replaces the parts of the outside world that a test
// needs.
func at(t *testing.T, d *daemon, adjust func(*cli.Program), args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if len(args) > 0 && args[0] != "version" && args[0] != "recover" && args[0] != "drill" { // they ask no daemon
		args = append(args, "--listen", d.address)
	}
	p := newProcess(term.Terminal{
		Environ:    []string{"HOME=" + homeOf(t), "LocalAppData=" + homeOf(t), "NO_COLOR=1"},
		Stdin:      strings.NewReader(""),
		Stdout:     &stdout,
		Stderr:     &stderr,
		IsTerminal: func(any) bool { return false },
		Size:       term.SizeOf,
		Ticks:      term.EverySecond,
		Now:        func() time.Time { return time.Now().UTC() },
	}, args, &service.Inherited{})
	if adjust != nil {
		adjust(p)
	}
	code := p.Run(t.Context())
	return outcome{code, stdout.String(), stderr.String()}
}

// wantFailure checks that a command printed one clear error line and nothing else.
func wantFailure(t *testing.T, got outcome, code int, parts ...string) {
	t.Helper()
	if got.code != code {
		t.Errorf("exit code %d, want %d", got.code, code)
	}
	if got.stdout != "" {
		t.Errorf("stdout %q, want none", got.stdout)
	}
	if !strings.HasPrefix(got.stderr, "botwired: ") || strings.Count(got.stderr, "\n") != 1 || !strings.HasSuffix(got.stderr, "\n") {
		t.Errorf("stderr is not one line of botwired's: %q", got.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(got.stderr, part) {
			t.Errorf("stderr %q does not contain %q", got.stderr, part)
		}
	}
}

func wantOutput(t *testing.T, got outcome, stdout string) {
	t.Helper()
	if got.code != cli.ExitOK || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	if got.stdout != stdout {
		t.Errorf("stdout:\n%s\nwant:\n%s", got.stdout, stdout)
	}
}

// daemon stands in for a running botwired. It has one answer for each "METHOD target", and records the
// requests.
type daemon struct {
	address string // as in the setting listen
	mu      sync.Mutex
	answers map[string]answer
	asked   []asked
}

type answer struct {
	status int
	body   string
}

type asked struct {
	Target        string // method and request target, as received
	Host          string
	Authorization string
	Author        string
	Body          string
}

func newDaemon(t *testing.T, answers map[string]answer) *daemon {
	t.Helper()
	d := &daemon{answers: answers}
	server := httptest.NewServer(ofThisAccount(t, d))
	t.Cleanup(server.Close)
	d.address = server.Listener.Addr().String()
	return d
}

// ofThisAccount makes a handler prove to be a daemon of the account whose home is homeOf.
func ofThisAccount(t *testing.T, h http.Handler) http.Handler {
	t.Helper()
	loaded, err := config.Load(config.Sources{Environ: []string{"HOME=" + homeOf(t), "LocalAppData=" + homeOf(t)}})
	if err != nil {
		t.Fatal(err)
	}
	prover := attach.NewProver(loaded)
	prover.Prepare(slog.New(slog.DiscardHandler))
	challenged := prover.Handler("", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Botwired-Challenge") != "" {
			challenged.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// newSocketDaemon listens on a Unix socket.
func newSocketDaemon(t *testing.T, answers map[string]answer) *daemon {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skipf("no Unix sockets here: %v", err)
	}
	d := &daemon{answers: answers, address: "unix://" + socket}
	server := httptest.NewUnstartedServer(d)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return d
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	target := r.Method + " " + r.RequestURI
	d.mu.Lock()
	d.asked = append(d.asked, asked{target, r.Host, r.Header.Get("Authorization"), r.Header.Get("Botwired-Author"), string(body)})
	found, ok := d.answers[target]
	d.mu.Unlock()
	if !ok {
		found = answer{http.StatusTeapot, `{"detail":"not asked for: ` + target + `"}`}
	}
	w.Header().Set("Content-Type", "application/json")
	if found.status/100 == 3 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(found.status)
	_, _ = io.WriteString(w, found.body)
}

// only returns the one request that came.
func (d *daemon) only(t *testing.T) asked {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked) != 1 {
		t.Fatalf("%d requests came, want 1: %+v", len(d.asked), d.asked)
	}
	return d.asked[0]
}

// closedAddress returns a loopback address where nothing listens, and on which the test may listen.
func closedAddress(t *testing.T) string {
	t.Helper()
	address, err := loopback.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}
