package attach

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
)

// A daemon has the caller's upstream however it spells the URL: an older one keeps its user's spelling.
func TestUpstreamOfADaemon(t *testing.T) {
	loaded, err := config.Load(config.Sources{
		Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
		Flags:   map[string]string{"upstream.url": "https://Memory.Example:443/base/", "data_dir": t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := look{Options: Options{Loaded: loaded}, client: &Client{}}
	for has, isOther := range map[string]bool{
		"https://memory.example/base":     false,
		"https://memory.example":          true,
		"https://memory.example:444/base": true,
		"embedded":                        true,
		"nats://memory.example:4222":      true,
		"":                                true,
	} {
		if err := l.checkUpstream(has); isOther != (err != nil) || isOther && !strings.Contains(err.Error(), "carries writes to "+has) {
			t.Errorf("%q: %v", has, err)
		}
	}
}
