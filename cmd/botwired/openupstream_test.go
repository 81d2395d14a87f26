package main

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/engines"
)

// The daemon waits for a dead leader only as long as the servers need to elect another. doctor does not
// retry, and waits the full timeout.
func TestTimeOfARequestToACluster(t *testing.T) {
	for timeout, want := range map[string]time.Duration{"10s": clusterTimeout, "2s": 2 * time.Second} {
		loaded, err := config.Load(config.Sources{
			Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
			Flags:   map[string]string{"upstream.url": "nats://127.0.0.1:1", "upstream.timeout": timeout, "data_dir": t.TempDir()},
		})
		no(t, err)
		c := &loaded.Config
		daemon, err := new(sidecar).clusterOptions(c)
		no(t, err)
		doctor, err := engines.Cluster(c, "host", nil)
		no(t, err)
		if daemon.Timeout != want || doctor.Timeout != c.Upstream.Timeout {
			t.Errorf("with upstream.timeout = %s: %s, want %s, and %s for doctor", timeout, daemon.Timeout, want, doctor.Timeout)
		}
	}
}

// contextFile writes a NATS context with the given fields.
func contextFile(t *testing.T, fields string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "memory.json")
	no(t, os.WriteFile(name, []byte("{"+fields+"}"), 0o600))
	return name
}

// A missing context, or one that names missing or wrong files, fails the start. The error names the
// context, the field and the file, but shows no file contents.
func TestContextsOfNoUse(t *testing.T) {
	newHome(t)
	file := filepath.Join(t.TempDir(), "file")
	no(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	at := strconv.Quote(file)
	for fields, says := range map[string]string{
		`"ca":"/nonexistent/ca.pem"`:         "ca: /nonexistent/ca.pem cannot be used",
		`"creds":"/nonexistent/c"`:           "creds: /nonexistent/c cannot be used",
		`"cert":"/nonexistent/c","key":"/k"`: "/nonexistent/c cannot be used",
		`"nkey":"/nonexistent/n","ca":""`:    "/nonexistent/n",
		`"password":"s3cret","nsc":"s3cret"`: "expected no nsc in it",
		`"creds":` + at:                      "creds = " + at + ": expected NATS credentials",
		`"ca":` + at:                         "ca = " + at + ": expected certificates in PEM",
		`"cert":` + at + `,"key":` + at:      "cert = " + at + " and key = " + at + ": expected a certificate and its key in PEM",
	} {
		name := contextFile(t, fields)
		var log safeBuffer
		code := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--upstream", "nats://127.0.0.1:1", "--upstream-nats-context", name}, io.Discard, &log)
		if text := log.String(); code != cli.ExitError || !strings.Contains(text, says) || strings.Contains(text, "s3cret") ||
			!strings.Contains(text, name) && !strings.Contains(fields, "nkey") {
			t.Errorf("exit code %d: %s", code, text)
		}
	}
}
