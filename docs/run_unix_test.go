//go:build unix

package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/proof/loopback"
)

// blockLimit ends a block that hangs. Nothing in a page takes a tenth of it, but the machine may be busy.
const blockLimit = 4 * time.Minute

// TestPages follows each page as a reader does: it runs the page's blocks of commands in order,
// with bash -e -o pipefail. Exported variables and the working folder go from block to block.
//
// The folder is empty but for bin/botwired, deploy and docs, and so is the home. botwired is on the
// PATH. The ports 2689 to 2699 stand for free ones, everywhere in a block. Upstream is the embedded
// one, unless the block names another: BOTWIRED_UPSTREAM_URL says so. Pages run side by side.
func TestPages(t *testing.T) {
	program := filepath.Join(t.TempDir(), "botwired")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/botwired")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	for _, p := range pages(t) {
		var run []block
		for _, b := range p.blocks {
			if p.followed() && b.language == "sh" && (b.has("runs as") || !b.has("tried by")) {
				run = append(run, b)
			}
		}
		if len(run) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(p.path), ".md"), func(t *testing.T) {
			t.Parallel()
			f := newFollower(t, program)
			for _, b := range run {
				if err := f.follow(b); err != nil {
					t.Fatalf("%s:%d: %v", p.path, b.number, err)
				}
			}
		})
	}
}

// follower is a reader who follows one page.
type follower struct {
	t        *testing.T
	dir      string // the working folder at the beginning
	state    string // the file with the variables and the folder that the last block has left
	environ  []string
	ports    map[string]string // by the port in the page
	inFlight []*server
}

// server is a block in the background. Its process group is the server's alone.
type server struct {
	cmd    *exec.Cmd
	output safeBuffer
	ended  chan struct{} // closed once nobody of the group is left who writes
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newFollower(t *testing.T, program string) *follower {
	t.Helper()
	f := &follower{t: t, dir: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), ports: make(map[string]string)}
	bin := filepath.Join(f.dir, "bin")
	if err := errors.Join(
		os.Mkdir(bin, 0o755),
		os.Symlink(program, filepath.Join(bin, "botwired")),
		os.CopyFS(filepath.Join(f.dir, "deploy"), os.DirFS("../deploy")),
		os.CopyFS(filepath.Join(f.dir, "docs"), os.DirFS(".")),
	); err != nil {
		t.Fatal(err)
	}
	f.environ = []string{
		"HOME=" + t.TempDir(), "PATH=" + bin + ":" + os.Getenv("PATH"), "TERM=dumb", "LANG=C.UTF-8",
		"BOTWIRED_UPSTREAM_URL=embedded", "BOTWIRED_LISTEN=127.0.0.1:" + f.port("2689"),
	}
	t.Cleanup(func() { f.end(syscall.SIGKILL) })
	return f
}

// port is the free port that a port of a page stands for.
func (f *follower) port(documented string) string {
	if f.ports[documented] == "" {
		address, err := loopback.FreeAddress(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		_, f.ports[documented], err = net.SplitHostPort(address)
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return f.ports[documented]
}

var documentedPort = regexp.MustCompile(`\b(2689|269[0-9])\b`)

func (f *follower) withPorts(text string) string {
	return documentedPort.ReplaceAllStringFunc(text, f.port)
}

// follow runs a block, or starts it if it is one in the background.
func (f *follower) follow(b block) error {
	if b.has("stops") {
		f.end(syscall.SIGINT)
	}
	text := b.text
	for _, instead := range b.values("runs as") {
		text = instead
	}
	text = f.withPorts(text)
	if b.has("background") {
		return f.start(text)
	}
	output, err := f.run(text)
	var failed *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &failed):
		return err
	case b.has("fails") && err == nil:
		return fmt.Errorf("the block should fail, and does not:\n%s\n%s", text, output)
	case !b.has("fails") && err != nil:
		return fmt.Errorf("%w\n%s\n%s%s", err, text, output, f.servers())
	}
	for _, want := range b.values("shows") {
		if want = f.withPorts(want); !strings.Contains(output, want) {
			return fmt.Errorf("the block does not show %q:\n%s\n%s%s", want, text, output, f.servers())
		}
	}
	return nil
}

// run waits for the end of a block, and ends all that is left of its process group.
func (f *follower) run(text string) (output string, err error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), blockLimit)
	defer cancel()
	file, err := os.Create(filepath.Join(f.t.TempDir(), "output")) // a file: a process that the block leaves behind holds up no pipe
	if err != nil {
		return "", err
	}
	keep := fmt.Sprintf("trap 'code=$?; { export -p; printf \"cd %%q\\n\" \"$PWD\"; } >%q; exit $code' EXIT\n", f.state)
	cmd := f.bash(ctx, f.recall()+keep+text)
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // no error matters: mostly nobody is left
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("the block takes longer than %s", blockLimit)
	}
	all, failed := os.ReadFile(file.Name())
	if failed = errors.Join(failed, file.Close()); failed != nil {
		return "", failed
	}
	return string(all), err
}

// recall is the beginning of a script that goes on where the last block has ended.
func (f *follower) recall() string { return fmt.Sprintf("[ ! -e %q ] || . %[1]q\n", f.state) }

// bash runs a script in a process group of its own.
func (f *follower) bash(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = f.dir, f.environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

var listenFlag = regexp.MustCompile(`--listen[ =](127\.0\.0\.1:\d+)`)

// start runs a server until f.end, and returns when it listens.
func (f *follower) start(text string) error {
	address := "127.0.0.1:" + f.port("2689")
	if strings.Contains(text, "selfhost") {
		address = "127.0.0.1:" + f.port("2690") // its default, as BOTWIRED_LISTEN is the daemon's
	}
	if m := listenFlag.FindStringSubmatch(text); m != nil {
		address = m[1]
	}
	if answers(f.t.Context(), address) {
		return fmt.Errorf("a server is there already at %s, before this block starts one:\n%s", address, text)
	}
	s := &server{ended: make(chan struct{})}
	s.cmd = f.bash(context.WithoutCancel(f.t.Context()), f.recall()+"export BOTWIRED_LISTEN="+address+"\n"+text)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		return err
	}
	f.inFlight = append(f.inFlight, s)
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // its error repeats how the server has ended, and the output says why
	}()
	looks := time.NewTicker(10 * time.Millisecond)
	defer looks.Stop()
	limit := time.After(blockLimit)
	for !answers(f.t.Context(), address) {
		select {
		case <-looks.C:
		case <-s.ended:
			return fmt.Errorf("the server ended instead of listening at %s:\n%s\n%s", address, text, s.output.String())
		case <-limit:
			return fmt.Errorf("nobody listens at %s:\n%s\n%s", address, text, s.output.String())
		}
	}
	return nil
}

// answers reports whether a server at an address takes requests. A daemon that still opens its journal, or that
// stops, says 503; a server that is no daemon may answer as it likes.
func answers(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/_botwired/readyz", http.NoBody)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: blockLimit}
	response, err := client.Do(request)
	return err == nil && response.Body.Close() == nil && response.StatusCode != http.StatusServiceUnavailable
}

// end sends a signal to the servers of the page, and waits for their end.
func (f *follower) end(by syscall.Signal) {
	for _, s := range f.inFlight {
		_ = syscall.Kill(-s.cmd.Process.Pid, by) // no error matters: it may have ended
		select {
		case <-s.ended:
		case <-time.After(blockLimit):
			f.t.Errorf("the server goes on after %s:\n%s", by, s.output.String())
			_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
			<-s.ended
		}
	}
	f.inFlight = nil
}

// servers is what the page's servers have written, for an error.
func (f *follower) servers() string {
	var b strings.Builder
	for _, s := range f.inFlight {
		b.WriteString("\nthe server in the background has written:\n" + s.output.String())
	}
	return b.String()
}

// The runner sees what it is there for.
func TestFaultsOfPagesAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"```sh\nbotwierd status\n```\n":                                                                  "not found",
		"```sh\ntrue | botwierd | cat\n```\n":                                                            "not found",
		"<!-- fails -->\n```sh\ntrue\n```\n":                                                             "should fail",
		"<!-- shows: hallo -->\n```sh\necho hello\n```\n":                                                "does not show",
		"<!-- background -->\n```sh\nexit 0\n```\n":                                                      "instead of listening",
		"```sh\nexport A=1; cd deploy\n```\n\n```sh\n[ $A = 2 ]\n```":                                    "exit status 1",
		"```sh\nexport A=1; cd deploy\n```\n\n```sh\n[ $A = 1 ]\ntest -e alerts.yml; ! test -e bin\n```": "",
		"<!-- fails -->\n<!-- shows: 127.0.0.1:2690 -->\n```sh\necho 127.0.0.1:2690; exit 3\n```":        "",
	} {
		p, err := parsePage("x.md", "# x\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		f, got := newFollower(t, os.DevNull), ""
		for _, b := range p.blocks {
			if err := f.follow(b); err != nil {
				got = err.Error()
			}
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
