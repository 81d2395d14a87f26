package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/seal"
)

// A namespace moves in, its plain entries go only once they are sealed, and a rotated key becomes unused.
func testSealCommands(t *testing.T, program string) {
	service := newMemoryService(t).up()
	plain := func(key, value string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, service.url()+"/memory/agents/"+key, strings.NewReader(`{"value":"`+value+`"}`))
		no(t, err)
		resp, err := http.DefaultClient.Do(req)
		no(t, err)
		no(t, resp.Body.Close())
	}
	long := strings.Repeat("k", 90)
	plain("a", "va")
	plain("b", "vb")
	plain(long, "v")
	dir, address := t.TempDir(), freeAddress(t)
	file, keys, data := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "keys"), filepath.Join(dir, "data")
	old := string(seal.Generate())
	no(t, os.WriteFile(keys, []byte(old), 0o600))
	no(t, os.WriteFile(file, []byte("seal.key_file: "+keys+"\nnamespaces: [{match: agents, sealed: true}]\n"), 0o600))
	say := func(fails bool, args ...string) string {
		t.Helper()
		cmd, stderr := command(t.Context(), t, program, append([]string{"seal"}, append(args, "--config", file, "--listen", address, "--upstream-url", service.url())...)...)
		out, err := cmd.Output()
		if (err != nil) != fails {
			t.Fatalf("%s: %v\n%s%s", args, err, out, stderr)
		}
		return string(out) + stderr.String()
	}
	shows := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in:\n%s", part, text)
			}
		}
	}
	// A daemon that was not restarted since does not seal yet.
	c := startChild(t, program, data, address, service.url())
	shows(say(true, "adopt", "agents", "--delete", "--yes"), "0 plain entries deleted", "does the daemon seal agents?")
	c.signal(os.Interrupt)
	c.wantExit(time.Minute, 0)
	c = startChild(t, program, data, address, service.url(), "--config", file)
	shows(say(false, "status"), "agents", "agents: 3 entries in the plain namespace")
	shows(say(false, "adopt", "agents"), "left: "+long, "2 entries written to be sealed, 0 sealed already, 0 plain entries deleted", "still upstream")
	for key, want := range map[string]string{"a": "va", "b": "vb"} {
		sealed, err := c.value("agents/" + key)
		plain, plainErr := service.value("agents/" + key)
		if sealed != want || plain != want || err != nil || plainErr != nil {
			t.Errorf("%s: sealed %q, %v, plain %q, %v", key, sealed, err, plain, plainErr)
		}
	}
	time.Sleep(10 * time.Millisecond) // updated_at has microseconds
	plain("b", "newer")
	shows(say(false, "adopt", "agents", "--delete", "--yes"), "left: b: a program that does not seal", "left: "+long,
		"0 entries written to be sealed, 1 sealed already, 1 plain entry deleted")
	if v, err := service.value("agents/a"); err == nil {
		t.Errorf("the plain entry is still there: %q", v)
	}
	if v, err := service.value("agents/b"); v != "newer" {
		t.Errorf("a newer plain entry is %q, %v", v, err)
	}
	c.signal(os.Interrupt)
	c.wantExit(time.Minute, 0)
	_, fresh, _ := strings.Cut(string(seal.Generate()), "\nseal ")
	no(t, os.WriteFile(keys, []byte(strings.Replace(old, "\nseal ", "\nopen ", 1)+"seal "+fresh), 0o600))
	c = startChild(t, program, data, address, service.url(), "--config", file)
	shows(say(false, "status"), "opens 2 entries: botwired seal rewrap")
	shows(say(false, "rewrap", "agents"), "2 entries of 2 written again")
	if status, _, err := c.ask(http.MethodPost, "/_botwired/flush?now=true", ""); status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	shows(say(false, "status", "agents", "--json"), `"entries":2`)
	shows(say(false, "rewrap", "agents"), "0 entries of 2 written again")
	if v, err := c.value("agents/a"); v != "va" || err != nil {
		t.Errorf("after the rotation: %q, %v", v, err)
	}
	shows(say(false, "status"), "opens no entry: its line may go")
}
