package cli

import (
	"slices"
	"testing"
)

// The daemon gets the settings that run got.
func TestArgumentsOfTheDaemon(t *testing.T) {
	f := &Settings{values: map[string]string{"log.level": "debug", "flush.linger": "2s"}, file: "c.yaml"}
	got := f.daemonArguments()
	if want := []string{"serve", "--until-unused", "--config=c.yaml", "--flush-linger=2s", "--log-level=debug"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
