package bootclock_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/bootclock"
)

// The clock runs, and the boot has one name.
func TestNow(t *testing.T) {
	boot, before := bootclock.Now()
	if (boot != "") != (runtime.GOOS == "linux") {
		t.Fatalf("the boot's name is %q on %s", boot, runtime.GOOS)
	}
	if boot == "" {
		return
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		again, now := bootclock.Now()
		if again != boot || now < before {
			t.Fatalf("then it was %s at %s, and now %s at %s", boot, before, again, now)
		}
		if now > before {
			return
		}
	}
	t.Errorf("it stands still at %s", before)
}
