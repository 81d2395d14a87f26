package config_test

import (
	"testing"

	"github.com/botwired/botwired/config"
)

// data_dir defaults to the unit's directory.
func TestStateDirectoryIsASource(t *testing.T) {
	unit := []string{"HOME=/h", "STATE_DIRECTORY=/var/lib/botwired"}
	for want, environ := range map[config.Source][]string{
		{Layer: config.FromEnvironment, Name: "STATE_DIRECTORY"}:   unit,
		{Layer: config.FromEnvironment, Name: "BOTWIRED_DATA_DIR"}: append(unit, "BOTWIRED_DATA_DIR=/elsewhere"),
		{Layer: config.FromDefault}:                                unit[:1],
	} {
		if got := load(t, config.Sources{Environ: environ}).Source("data_dir"); got != want {
			t.Errorf("%v: data_dir is from %v, want %v", environ, got, want)
		}
	}
}
