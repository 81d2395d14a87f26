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
		"https://memory":                  "https://memory",
		"https://a/memory/b":              "https://a/memory/b",
		"http://127.0.0.1:443":            "http://127.0.0.1:443",
		"https://botwire.dev:8443":        "https://botwire.dev:8443",
		"http://[::1]:80/":                "http://[::1]",
		"http://[::1]":                    "http://[::1]",
		"https://memory.example:443/a/:b": "https://memory.example/a/:b",
	} {
		c := load(t, config.Sources{Flags: map[string]string{"upstream.url": url}}).Config
		if got := c.Upstream.Identity(); got != want {
			t.Errorf("%s is %s, want %s", url, got, want)
		}
		if got, ok := config.ParseIdentity(url); got != want || !ok {
			t.Errorf("%s was %s, want %s", url, got, want)
		}
	}
	if got, ok := config.ParseIdentity("https://a/memory"); got != "https://a/memory" || !ok {
		t.Errorf("a directory that an older botwired has bound to https://a/memory belongs to %q", got)
	}
	for _, text := range []string{"", "botwire.dev", "https://a?b", "https://u:p@a", "http://botwire.dev", "Embedded", "none", "nats://a", "nats:", "nats:a.b"} {
		if got, ok := config.ParseIdentity(text); ok {
			t.Errorf("%q is %q", text, got)
		}
	}
}
