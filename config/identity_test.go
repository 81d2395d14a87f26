package config_test

import (
	"testing"

	"github.com/botwired/botwired/config"
)

func TestUpstreamIdentity(t *testing.T) {
	for url, want := range map[string]string{
		"embedded":                        "embedded",
		"https://botwire.dev":             "https://botwire.dev",
		"https://BotWire.dev:443/":        "https://botwire.dev",
		"HTTPS://botwire.dev/Base/x//":    "https://botwire.dev/Base/x",
		"https://botwire.dev/a%20b":       "https://botwire.dev/a%20b",
		"http://127.0.0.1:80":             "http://127.0.0.1",
		"http://127.0.0.1:443":            "http://127.0.0.1:443",
		"https://botwire.dev:8443":        "https://botwire.dev:8443",
		"http://[::1]:80/":                "http://[::1]",
		"http://[::1]":                    "http://[::1]",
		"https://memory.example:443/a/:b": "https://memory.example/a/:b",
	} {
		c := load(t, config.Sources{Flags: map[string]string{"upstream.url": url, "upstream.moved_from": url}}).Config
		if got := c.Upstream.Identity(); got != want {
			t.Errorf("%s is %s, want %s", url, got, want)
		}
		if got := c.Upstream.FormerIdentity(); got != want {
			t.Errorf("%s was %s, want %s", url, got, want)
		}
	}
	c := load(t, config.Sources{Flags: map[string]string{"upstream.moved_from": ""}}).Config
	if got := c.Upstream.FormerIdentity(); got != "" {
		t.Errorf("it was %q before", got)
	}
}
