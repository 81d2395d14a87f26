package fleet

import (
	"context"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/proof/cluster/check"
	"github.com/botwired/botwired/proof/loopback"
	"github.com/botwired/botwired/proof/wiretest"
)

// patience ends a hang: a busy machine is slow.
const patience = 2 * time.Minute

// A client sees no difference between BotWire and a daemon over three servers, or a memory service over them
// without a daemon.
func TestRecordingsOverThreeServers(t *testing.T) {
	url := threeServers(t)
	d := daemon(t, url, OverBucket("recordings")...)
	if _, err := d.Put(t.Context(), check.Entry{Namespace: "start", Key: "start"}, "start"); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(t.Context(), patience); err != nil { // the servers have found each other
		t.Fatal(err)
	}
	t.Run("daemon", func(t *testing.T) { wiretest.Replay(t, d.URL()) })
	t.Run("selfhost", func(t *testing.T) { wiretest.Replay(t, selfhost(t, url)) })
}

// selfhost starts the memory service over the servers.
func selfhost(t *testing.T, url string) string {
	t.Helper()
	address, err := loopback.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "selfhost", "--listen", address, "--store", url, "--upstream-nats-bucket", "selfhost")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	base := "http://" + address
	ready(t, base)
	return base
}

// ready waits until a service answers for an entry that it does not hold.
func ready(t *testing.T, base string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		response, err := client.Get(base + "/memory/start/none")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusNotFound {
				return
			}
		}
		if time.Now().After(until) {
			t.Fatalf("the service does not answer: %v", err)
		}
	}
}
