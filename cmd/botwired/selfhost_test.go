package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// Callers who wait for the latency when the memory service stops get their answers.
func TestSelfhostAnswersBeforeItStops(t *testing.T) {
	newHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{
			"selfhost", "--listen", "127.0.0.1:0", "--latency", "400ms", "--db", filepath.Join(t.TempDir(), "m.db"),
		}, io.Discard, write)
		write.Close()
	}()
	log := json.NewDecoder(bufio.NewReader(read))
	var line struct{ Address string }
	if err := log.Decode(&line); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()

	// The service asks for the body when it carries the request out, and answers 200 ms later.
	begun := &httptrace.ClientTrace{Got100Continue: cancel}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), begun), http.MethodPut, "http://"+line.Address+"/memory/ns/k",
		strings.NewReader(`{"value":"v"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("HTTP %d", response.StatusCode)
	}
	if code := <-done; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// A database that selfhost makes is in its log: a mistyped name would look like lost data.
func TestSelfhostTellsOfANewDatabase(t *testing.T) {
	newHome(t)
	database := filepath.Join(t.TempDir(), "m.db")
	for _, isNew := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		var log safeBuffer
		done := make(chan int)
		go func() {
			done <- run(ctx, []string{"selfhost", "--listen", "127.0.0.1:0", "--db", database}, io.Discard, &log)
		}()
		eventually(t, func() error {
			if !strings.Contains(log.String(), "listening") {
				return errors.New("it does not listen")
			}
			return nil
		})
		cancel()
		if code := <-done; code != cli.ExitOK {
			t.Errorf("exit code %d: %s", code, log.String())
		}
		if told := strings.Contains(log.String(), "a new one was made"); told != isNew {
			t.Errorf("the log tells of a new database: %v, want %v", told, isNew)
		}
	}
}

// The service over a cluster takes no setting of a database, and no password in a command line.
func TestSelfhostStoreIsChecked(t *testing.T) {
	newHome(t)
	for name, row := range map[string]struct {
		args []string
		says []string
	}{
		"a database too":  {[]string{"--store", "nats://127.0.0.1", "--db", "memory.db"}, []string{"--db", "--store"}},
		"a latency":       {[]string{"--store", "nats://127.0.0.1", "--embedded-latency", "1s"}, []string{"--embedded-latency"}},
		"another service": {[]string{"--store", "https://botwire.dev"}, []string{"https://botwire.dev", "nats://host"}},
		"nothing":         {[]string{"--store", ""}, []string{"--store", "nats://host"}},
		"a password":      {[]string{"--store", "nats://me:s3cret@127.0.0.1"}, []string{"upstream.nats.context"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log safeBuffer
			code := run(t.Context(), append([]string{"selfhost", "--listen", "127.0.0.1:0"}, row.args...), io.Discard, &log)
			if code != cli.ExitUsage || strings.Contains(log.String(), "s3cret") {
				t.Errorf("exit code %d: %s", code, log.String())
			}
			for _, part := range row.says {
				if !strings.Contains(log.String(), part) {
					t.Errorf("%q does not say %q", log.String(), part)
				}
			}
		})
	}
}

// contextFile is a context of NATS with such fields.
func contextFile(t *testing.T, fields string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "memory.json")
	no(t, os.WriteFile(name, []byte("{"+fields+"}"), 0o600))
	return name
}

// A context that is not there, and one that names files which are not there or of another kind, fail the
// start, with the context, the field and the file. The error shows nothing of any file's contents.
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
		code := run(t.Context(), []string{"selfhost", "--listen", "127.0.0.1:0", "--store", "nats://127.0.0.1:1", "--upstream-nats-context", name}, io.Discard, &log)
		if text := log.String(); code != cli.ExitError || !strings.Contains(text, says) || strings.Contains(text, "s3cret") ||
			!strings.Contains(text, name) && !strings.Contains(fields, "nkey") {
			t.Errorf("exit code %d: %s", code, text)
		}
	}
}
