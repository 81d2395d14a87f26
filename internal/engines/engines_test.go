package engines

import (
	"os"
	"path/filepath"
	"testing"
)

// Only the servers can judge credentials that have a key.
func TestCredentialsWithAKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "botwired.creds")
	noError(t, os.WriteFile(file, []byte("-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\r\n  SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\r\n------END USER NKEY SEED------\n"), 0o600))
	noError(t, checkCredentials(file))
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
