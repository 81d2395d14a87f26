package supervisor_test

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/proof/supervisor"
)

// A process that a supervisor stops ends by itself, with 0.
func TestStop(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal("the test needs a shell: ", err)
	}
	const listens = `echo '{"msg":"listening","address":"127.0.0.1:7"}' >&2; `
	for name, row := range map[string]struct {
		trap  string
		limit time.Duration
		fails string
	}{
		"it ends":                   {`trap 'exit 0' TERM`, time.Minute, ""},
		"it ends with another code": {`trap 'exit 3' TERM`, time.Minute, "ended with 3"},
		"it does not end":           {`trap '' TERM`, 100 * time.Millisecond, "has not stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := child.Start(t.Context(), t.TempDir(), shell, "-c", row.trap+"; "+listens+"while :; do sleep 0.01; done")
			if err != nil {
				t.Fatal(err)
			}
			err = supervisor.Stop(p, row.limit)
			if (err == nil) != (row.fails == "") || err != nil && !strings.Contains(err.Error(), row.fails) {
				t.Errorf("stopped, it said %v", err)
			}
			if err := supervisor.Stop(p, row.limit); err == nil {
				t.Error("a process that has ended can be stopped")
			}
		})
	}
}
