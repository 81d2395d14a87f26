package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// putThrough checks the status and the state of a PUT to a write-through namespace.
func (c *child) putThrough(key, value string, wantStatus int, wantState string) {
	c.t.Helper()
	status, header, text, err := c.exchange(http.MethodPut, "/memory/"+key, strings.NewReader(`{"value":"`+value+`"}`), "Content-Type", "application/json")
	state, _, _ := strings.Cut(header.Get("Botwired-Write"), ";")
	if err != nil || status != wantStatus || state != wantState {
		c.t.Errorf("PUT %s: %d, %q, %s, %v; want %d, %q", key, status, state, text, err, wantStatus, wantState)
	}
}

func (c *child) wantPending(want int) {
	c.t.Helper()
	if n, err := c.pending(); err != nil || n != want {
		c.t.Errorf("%d are pending, %v; want %d", n, err, want)
	}
}

// newHoldingService applies the PUTs to keys named held, reports each, and answers only when goOn is
// closed.
func newHoldingService(t *testing.T) (service *memoryService, arrived, goOn chan struct{}) {
	t.Helper()
	service, arrived, goOn = newMemoryService(t), make(chan struct{}, 8), make(chan struct{})
	take := service.handler
	service.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		take.ServeHTTP(w, r)
		if r.Method == http.MethodPut && r.URL.Path == "/memory/"+hidden("through/held") {
			arrived <- struct{}{} // applied, and answered later
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
	})
	service.up()
	return service, arrived, goOn
}

// outlastsThrough stops upstream for a while: meanwhile, writes through are durable here, and their callers are told so.
func (c *child) outlastsThrough(service *memoryService) {
	c.t.Helper()
	service.down()
	for _, value := range []string{"in an outage", "known to be one"} { // the first on a connection that was cut
		c.putThrough("through/k", value, http.StatusGatewayTimeout, "pending")
	}
	c.wantPending(1)
	service.up()
	c.drained()
	if value, err := service.value("through/k"); value != "known to be one" || err != nil {
		c.t.Errorf("upstream holds %q, %v", value, err)
	}
}

// drained waits until nothing is pending.
func (c *child) drained() {
	c.t.Helper()
	eventually(c.t, func() error {
		if n, err := c.pending(); err != nil || n > 0 {
			return fmt.Errorf("%d are pending, %w", n, err)
		}
		return nil
	})
}

// A write through is upstream when it is acknowledged. If upstream does not answer, or the process is killed
// meanwhile, it is durable here, and goes upstream later. SIGHUP switches write-through on and off, and SIGTERM
// waits for one in progress.
func testWritesThrough(t *testing.T, program string) {
	service, arrived, goOn := newHoldingService(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	through := "upstream.late_window: 1s\n" + namespaces("{match: through*, write_through: true}")
	no(t, os.WriteFile(file, []byte(through), 0o600))
	start := func() *configured {
		c := &configured{file: file}
		c.child = startChild(t, program, filepath.Join(dir, "data"), freeAddress(t), service.url(), "--config", file)
		return c
	}
	c := start()
	c.putThrough("through/k", "v", http.StatusOK, "settled")
	if value, err := service.value("through/k"); value != "v" || err != nil {
		t.Errorf("upstream holds %q, %v", value, err)
	}
	c.write(t, file, "upstream.late_window: 1s\n"+namespaces("{match: through*}"))
	c.reload(t, "the configuration was reloaded")
	c.putThrough("through/k", "later", http.StatusOK, "pending")
	c.write(t, file, through)
	c.reload(t, "the configuration was reloaded")
	c.putThrough("through/k", "new", http.StatusOK, "settled")
	c.wantPending(0)

	c.outlastsThrough(service)

	answered := make(chan error, 1)
	hold := func(c *configured) { // returns when upstream has applied the write
		go func() {
			status, _, err := c.ask(http.MethodPut, "/memory/through/held", `{"value":"v"}`)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("a PUT: %d", status)
			}
			answered <- err
		}()
		select {
		case <-arrived:
		case err := <-answered:
			t.Fatal("upstream has not got the write: ", err)
		}
	}
	hold(c)
	c.kill()
	<-answered
	c = start()
	c.wantPending(1)
	if value, err := c.value("through/held"); value != "v" || err != nil {
		t.Errorf("after a kill, a reader gets %q, %v", value, err)
	}
	close(goOn)
	c.drained()

	c.signal(syscall.SIGTERM)
	c.wantExit(time.Minute, cli.ExitOK)
}

// A user drops a pending write, brings it back, and has it sent.
func testPendingByHand(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--flush-linger", "1h")
	run := func(args ...string) (string, error) {
		cmd, stderr := command(t.Context(), t, program, append(args, "--listen", c.address)...)
		out, err := cmd.Output()
		return string(out) + stderr.String(), err
	}
	for _, key := range []string{"n/a", "n/c"} {
		no(t, c.put(key, "v"))
	}
	if out, err := run("pending", "drop", "n", "c", "--yes"); err != nil || !strings.Contains(out, "dead letter 2") {
		t.Errorf("%s, %v", out, err)
	}
	c.wantPending(1)
	if out, err := run("dead-letters", "retry", "2"); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run("flush", "--now"); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	if value, err := service.value("n/c"); value != "v" || err != nil {
		t.Errorf("upstream holds %q, %v", value, err)
	}
	if out, err := run("pending", "drop", "n", "c", "--yes"); err == nil || !strings.Contains(out, "no write to n/c is pending") {
		t.Errorf("%s, %v", out, err)
	}
}
