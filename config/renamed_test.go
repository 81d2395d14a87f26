package config_test

import (
	"testing"

	"github.com/botwired/botwired/config"
)

// An old name is refused wherever it may stand, with the new name in the same spelling.
func TestOldNamesAreRefused(t *testing.T) {
	nested := write(t, "config.yaml", "upstream:\n  settle_time: 20s\n")
	dotted := write(t, "config.yaml", "upstream.settle_time: 20s\n")
	for _, c := range []struct {
		src  config.Sources
		want string
	}{
		{config.Sources{File: nested}, `upstream.settle_time = "20s" (file ` + nested + `:2): expected upstream.late_window, which is the new name of this setting`},
		{config.Sources{File: dotted}, `upstream.settle_time = "20s" (file ` + dotted + `:1): expected upstream.late_window, which is the new name of this setting`},
		{config.Sources{Environ: home(t, "BOTWIRED_UPSTREAM_SETTLE_TIME=20s")},
			`BOTWIRED_UPSTREAM_SETTLE_TIME = "20s" (environment): expected BOTWIRED_UPSTREAM_LATE_WINDOW, which is the new name of this setting`},
	} {
		if got := refused(t, c.src); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
	}
	for _, flag := range []string{"--upstream-settle-time", "--upstream.settle_time"} {
		want := flag + ` = "20s" (flag): expected --upstream-late-window, which is the new name of this setting`
		if got := config.UnknownFlag(flag, "20s", nil).Error(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}
