package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// A daemon that cannot save the quota's count says so, and otherwise works as usual: it exits with 0
// (contracts 18 and 22).
func TestACountThatCannotBeKept(t *testing.T) {
	newHome(t)
	dir := t.TempDir()
	no(t, os.Mkdir(filepath.Join(dir, "journal.quota"), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--upstream", "embedded", "--data-dir", dir, "--quota-writes-per-day", "10"}, io.Discard, write)
		write.Close()
	}()
	var warnings []string
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		var record struct{ Level, Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Errorf("on stderr: %s", lines.Text())
		}
		if record.Level == "WARN" {
			warnings = append(warnings, record.Msg)
		}
		if record.Msg != "listening" {
			continue
		}
		go func() { // the daemon may log meanwhile
			defer cancel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+record.Address+"/memory/n/k", strings.NewReader(`{"value":"v"}`))
			if err == nil {
				r.Header.Set("Prefer", "wait=60")
				r.Close = true
				var resp *http.Response
				if resp, err = http.DefaultClient.Do(r); err == nil {
					_ = resp.Body.Close()
					if got := resp.Header.Get("Botwired-Write"); got != "settled; seq=1" {
						t.Errorf("Botwired-Write: %s", got)
					}
				}
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	if code := <-done; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if said := strings.Join(warnings, "\n"); strings.Count(said, "quota") != 3 {
		t.Errorf("the log warns of %s", said)
	}
}
