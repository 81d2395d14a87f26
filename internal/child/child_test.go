package child_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script starts a script instead of a daemon.
func script(t *testing.T, text string) (*child.Process, error) {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal("the tests need a shell: ", err)
	}
	return child.Start(t.Context(), t.TempDir(), shell, "-c", text)
}

const listens = `echo '{"msg":"listening","address":"127.0.0.1:7"}' >&2; `

func TestProcess(t *testing.T) {
	p, err := script(t, listens+`echo "and says so" >&2; read -r line; exit 3`)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited() // its input is empty
	if lines := p.Lines(); p.URL() != "http://127.0.0.1:7" || p.Code() != 3 || len(lines) != 2 {
		t.Errorf("%s ended with %d after %q", p.URL(), p.Code(), lines)
	}
	if err := p.Alive(); err == nil || !strings.Contains(err.Error(), "ended with 3") {
		t.Errorf("a process that has ended: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killing it: %v", err)
	}
}

// A very long line does not block the daemon.
func TestALongLine(t *testing.T) {
	p, err := script(t, listens+`head -c 3000000 /dev/zero | tr '\0' x >&2; echo >&2; echo "and goes on" >&2; printf "to the end" >&2`)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		t.Fatal("it hangs: ", p.Kill())
	}
	if lines := p.Lines(); len(lines) != 4 || len(lines[1]) != 3_000_000 || lines[2] != "and goes on" || lines[3] != "to the end" {
		t.Errorf("%d lines", len(lines))
	}
}

func TestKill(t *testing.T) {
	p, err := script(t, listens+`exec sleep 600`)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Alive(); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil || p.Code() != -1 {
		t.Errorf("killed, it ended with %d (%v)", p.Code(), err)
	}
}

func TestProcessThatDoesNotStart(t *testing.T) {
	if _, err := script(t, `echo "no such directory" >&2; exit 1`); err == nil || !strings.Contains(err.Error(), "no such directory") {
		t.Errorf("the error does not have the log: %v", err)
	}
}
