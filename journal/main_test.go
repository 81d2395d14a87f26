package journal_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/journal"
)

func TestMain(m *testing.M) {
	if os.Getenv(journal.AloneEnv) != "" {
		os.Exit(m.Run())
	}
	// Pebble does not stop its monitor of slow disks if it cannot open a store.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2/vfs.(*diskHealthCheckingFS).startTickerLocked.func1"))
}
