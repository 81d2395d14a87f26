package config_test

import (
	"testing"

	"github.com/botwired/botwired/config"
)

// A removed setting is rejected in every source, and the error says what replaces it.
func TestGoneSettingsAreRefused(t *testing.T) {
	const instead = ": this setting no longer exists, remove it: "
	nested := write(t, "config.yaml", "amnesia:\n  entries: 3\n")
	dotted := write(t, "config.yaml", "listen: localhost:1\nflush.backoff_max: 10s\n")
	override := write(t, "config.yaml", "namespaces:\n  - match: a*\n    amnesia: {share: 0.9}\n")
	for _, c := range []struct {
		src   config.Sources
		parts []string
	}{
		{config.Sources{File: nested}, []string{"amnesia.entries = 3 (file " + nested + ":2)" + instead, "10 entries"}},
		{config.Sources{File: dotted}, []string{`flush.backoff_max = "10s" (file ` + dotted + ":2)" + instead, "30 s at most"}},
		{config.Sources{File: override}, []string{"entry 1, amnesia.share = 0.9 (file " + override + ":3)" + instead, "half of them"}},
		{config.Sources{Environ: home(t, "BOTWIRED_LOG_FORMAT=json")}, []string{`BOTWIRED_LOG_FORMAT = "json" (environment)` + instead, "on a terminal"}},
	} {
		wantAll(t, refused(t, c.src), c.parts...)
	}
	for _, flag := range []string{"--flush-backoff-max", "--flush.backoff_max"} {
		wantAll(t, config.UnknownFlag(flag, "10s", nil).Error(), flag+` = "10s" (flag)`+instead, "30 s at most")
	}
	// The sample of an older botwired has the group, with its settings commented out.
	load(t, config.Sources{File: write(t, "config.yaml", "amnesia:\n  #entries: 10\n")})
}
