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
	goleak.VerifyTestMain(m)
}
