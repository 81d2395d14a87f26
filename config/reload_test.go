package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

// A reload applies the settings that a running daemon can change, keeps the others, and names both.
func TestReload(t *testing.T) {
	running := loadYAML(t, "cache: {memory: 64MiB, fresh_for: 10s}\nupstream.headers: {a: one}\nnamespaces: [{match: x, flush.linger: 1s}]\n")
	next := loadYAML(t, "cache: {memory: 1GiB, fresh_for: 20s}\nupstream: {headers: {a: two}, timeout: 1s}\nallowed_hosts: [h]\n")
	got, err := config.Reload(running, next)
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Reloaded{
		Changed: []string{"allowed_hosts", "upstream.headers", "cache.fresh_for", "namespaces"},
		Restart: []string{"data_dir", "upstream.timeout", "cache.memory"}, // each Load has its own home
	}
	if diff := cmp.Diff(want.Changed, got.Changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Restart, got.Restart); diff != "" {
		t.Errorf("waits for a restart (-want +got):\n%s", diff)
	}
	c := got.Loaded.Config
	if c.For("x").FreshFor != 20*time.Second || c.For("x").Linger != running.Config.Linger ||
		c.Upstream.Headers["A"] != "two" || c.AllowedHosts[0] != "h" {
		t.Errorf("these are not in force: %+v", c)
	}
	if c.Cache.Memory != 64<<20 || c.Upstream.Timeout != running.Config.Upstream.Timeout || c.DataDir != running.Config.DataDir {
		t.Errorf("these changed: %+v", c)
	}
	if value(got.Loaded, "cache.memory") != "64MiB" || !strings.HasSuffix(got.Loaded.Source("cache.memory").Name, "config.yaml") {
		t.Errorf("the sources are not those of the values: %+v", got.Loaded.Values)
	}
	again, err := config.Reload(got.Loaded, got.Loaded)
	if err != nil || len(again.Changed)+len(again.Restart) > 0 {
		t.Errorf("of the same configuration, %+v changed: %v", again, err)
	}
	if diff := cmp.Diff(got.Loaded, again.Loaded); diff != "" {
		t.Errorf("the same configuration is another (-before +after):\n%s", diff)
	}
}

// The quota's defaults are those for the upstream in force, which a reload does not change.
func TestReloadKeepsTheQuotaOfTheUpstreamInForce(t *testing.T) {
	botwire, other := loadYAML(t, ""), loadYAML(t, "upstream.url: https://memory.example\n")
	other.Config.DataDir = botwire.Config.DataDir
	for _, test := range []struct{ running, next *config.Loaded }{{botwire, other}, {other, botwire}} {
		got, err := config.Reload(test.running, test.next)
		if err != nil {
			t.Fatal(err)
		}
		if got.Loaded.Config.Quota != test.running.Config.Quota || len(got.Changed) > 0 || !slices.Equal(got.Restart, []string{"upstream.url"}) {
			t.Errorf("changed: %v, with a restart: %v; in force: %+v", got.Changed, got.Restart, got.Loaded.Config.Quota)
		}
	}
}

// Settings that a running daemon cannot change stay, even if they would be rejected now: a container's
// memory can be lowered while the daemon runs.
func TestReloadKeepsWhatWouldBeRefused(t *testing.T) {
	running := loadYAML(t, "cache.memory: 64MiB\n")
	running.Config.Cache.Memory = 1 << 60
	got, err := config.Reload(running, loadYAML(t, "cache: {memory: 64MiB, fresh_for: 20s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Loaded.Config; c.Cache.Memory != 1<<60 || c.FreshFor != 20*time.Second {
		t.Errorf("in force: %+v", c)
	}
}

// A new configuration must also be valid together with the settings that a running daemon cannot
// change: the daemon still listens off loopback, so it must keep its token.
func TestReloadChecksTheOutcome(t *testing.T) {
	token := write(t, "token", secret)
	running := loadYAML(t, "listen: 0.0.0.0:2689\nauth.token_file: "+token+"\n")
	next := loadYAML(t, "listen: 127.0.0.1:2689\n")
	_, err := config.Reload(running, next)
	if err == nil {
		t.Fatal("a listener off loopback lost its token")
	}
	wantAll(t, err.Error(), "listen", "0.0.0.0:2689", "auth.token_file")
}

// Which namespaces are sealed changes with a restart only. Everything else of namespaces changes at once,
// unless an entry could decide it.
func TestReloadSealsNothingAnew(t *testing.T) {
	of := func(namespaces string) *config.Loaded {
		return loadYAML(t, "seal.key_file: /keys\nnamespaces: ["+namespaces+"]\n")
	}
	const sealed = "{match: a, sealed: true}"
	running := of(sealed)
	for namespaces, restart := range map[string]bool{
		sealed: false,
		sealed + ", {match: b, flush.linger: 1s}":    false,
		"{match: a, sealed: true, flush.linger: 1s}": false,
		"":                          true,
		"{match: a}":                true,
		"{match: a, sealed: false}": true,
		"{match: a*, sealed: true}": true,
		"{match: '*'}, " + sealed:   false,
		"{match: '?', flush.linger: 1s}, " + sealed: false,
		"{match: a-*, sealed: false}, " + sealed:    true,
		sealed + ", {match: b, sealed: true}":       true,
	} {
		got, err := config.Reload(running, of(namespaces))
		if err != nil {
			t.Fatal(err)
		}
		if waits := slices.Contains(got.Restart, "namespaces"); waits != restart || !got.Loaded.Config.For("a").Sealed {
			t.Errorf("%s waits for a restart: %v, sealed %v", namespaces, waits, got.Loaded.Config.For("a").Sealed)
		}
	}
}
