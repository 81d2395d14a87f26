package main

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

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
