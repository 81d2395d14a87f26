package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/proof/cluster"
)

// program is the path of the botwired that the tests run.
var program string

func TestMain(m *testing.M) {
	cluster.ServeIfAsked()
	dir, err := os.MkdirTemp("", "botwired-fleet-")
	if err == nil {
		program = filepath.Join(dir, "botwired")
		err = build(program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

func build(path string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "./cmd/botwired")
	cmd.Dir = "../../.."
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

// threeServers starts a cluster that ends with the test, and returns the URL of all.
func threeServers(t *testing.T) string {
	t.Helper()
	s, err := cluster.Start(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := s.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.URL()
}

// daemon starts a daemon that ends with the test, once the bucket takes its writes.
func daemon(t *testing.T, url string, flags ...string) *Daemon {
	t.Helper()
	return start(t, Options{Upstream: url, Flags: flags})
}

// start starts a daemon that ends with the test.
func start(t *testing.T, o Options) *Daemon {
	t.Helper()
	o.Program, o.Dir = program, t.TempDir()
	d, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	return d
}
