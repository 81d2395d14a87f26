package cli

import (
	"testing"
	"time"

	"github.com/botwired/botwired/config"
)

// A flush that begins as a request hangs has, by default, time to see it given up, its window end, and its entry's newest
// state go upstream.
func TestAFlushOutlastsAWindow(t *testing.T) {
	c, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	cmd, _, err := NewRoot(&Program{}).Find([]string{"flush"})
	if err != nil {
		t.Fatal(err)
	}
	up, margin := c.Config.Upstream, 10*time.Second
	if waits, err := time.ParseDuration(cmd.Flag("timeout").DefValue); err != nil || waits < up.Timeout+up.LateWindow+margin {
		t.Errorf("a flush waits for %s, and a window may end after %s: %v", waits, up.Timeout+up.LateWindow, err)
	}
}
