package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The daemon does not wait longer for a leader that is gone than the servers need to have another.
// A service without a daemon has no second attempt, and waits for as long as it may.
func TestTimeOfARequestToACluster(t *testing.T) {
	servers := []string{"nats://127.0.0.1:1"}
	for timeout, want := range map[string]time.Duration{"10s": clusterTimeout, "2s": 2 * time.Second} {
		c := &newPatient(t, map[string]string{"upstream.url": servers[0], "upstream.timeout": timeout}).loaded.Config
		daemon, err := new(sidecar).clusterOptions(c, servers)
		no(t, err)
		service, err := clusterOptions(c, servers, "host", nil)
		no(t, err)
		if daemon.Timeout != want || service.Timeout != c.Upstream.Timeout {
			t.Errorf("with upstream.timeout = %s: %s, want %s, and %s without a daemon", timeout, daemon.Timeout, want, service.Timeout)
		}
	}
}

// Credentials with a key are for the servers to judge.
func TestCredentialsWithAKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "botwired.creds")
	no(t, os.WriteFile(file, []byte("-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\r\n  SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\r\n------END USER NKEY SEED------\n"), 0o600))
	no(t, checkCredentials(file))
}
