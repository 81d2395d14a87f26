package main

import (
	"testing"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/engines"
)

// The daemon does not wait longer for a leader that is gone than the servers need to have another.
// A service without a daemon has no second attempt, and waits for as long as it may.
func TestTimeOfARequestToACluster(t *testing.T) {
	servers := []string{"nats://127.0.0.1:1"}
	for timeout, want := range map[string]time.Duration{"10s": clusterTimeout, "2s": 2 * time.Second} {
		loaded, err := config.Load(config.Sources{
			Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
			Flags:   map[string]string{"upstream.url": servers[0], "upstream.timeout": timeout, "data_dir": t.TempDir()},
		})
		no(t, err)
		c := &loaded.Config
		daemon, err := new(sidecar).clusterOptions(c, servers)
		no(t, err)
		service, err := engines.Cluster(c, servers, "host", nil)
		no(t, err)
		if daemon.Timeout != want || service.Timeout != c.Upstream.Timeout {
			t.Errorf("with upstream.timeout = %s: %s, want %s, and %s without a daemon", timeout, daemon.Timeout, want, service.Timeout)
		}
	}
}
