package config_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

func TestOverrides(t *testing.T) {
	loaded := loadYAML(t, `
namespaces:
  - match: prod-eu
    cache: {fresh_for: 1m, stale_if_error: 2d}
    quota: {writes_per_day: 50, period: 1h, namespace_bytes: 50MiB}
  - match: prod-*
    flush: {linger: 0s}
    quota.max_age: 1m
    cache:
  - match: "*-eu"
    cache.absent_for: 9s
    cache.stale_while_revalidate: 0
# What comes later in the file counts for overrides too.
cache.fresh_for: 20s
`)
	general := config.Policy{
		FreshFor: 20 * time.Second, StaleWhileRevalidate: time.Minute, StaleIfError: config.NoLimit,
		AbsentFor: 2 * time.Second, Linger: 100 * time.Millisecond, Fence: true, Offline: "refuse",
		Quota: config.Quota{WritesPerDay: 1000, Period: 24 * time.Hour, MaxAge: 15 * time.Minute, NamespaceBytes: 50_000_000},
	}
	first := general
	first.FreshFor, first.StaleIfError = time.Minute, 48*time.Hour
	first.Quota.WritesPerDay, first.Quota.Period, first.Quota.NamespaceBytes = 50, time.Hour, 50<<20
	second := general
	second.Linger, second.Quota.MaxAge = 0, time.Minute
	third := general
	third.AbsentFor, third.StaleWhileRevalidate = 9*time.Second, 0
	for namespace, want := range map[string]config.Policy{
		"other": general, "prod": general, "": general,
		"prod-eu": first, "prod-us": second, "prod-": second, "test-eu": third,
	} {
		if diff := cmp.Diff(want, loaded.Config.For(namespace)); diff != "" {
			t.Errorf("For(%q) (-want +got):\n%s", namespace, diff)
		}
	}
	want := `[{"cache.fresh_for":"1m","cache.stale_if_error":"2d","match":"prod-eu","quota.namespace_bytes":"50MiB","quota.period":"1h","quota.writes_per_day":"50"},` +
		`{"flush.linger":"0s","match":"prod-*","quota.max_age":"1m"},{"cache.absent_for":"9s","cache.stale_while_revalidate":"0s","match":"*-eu"}]`
	if got := value(loaded, "namespaces"); got != want {
		t.Errorf("printed %s, want %s", got, want)
	}
}

func TestOverrideProvenance(t *testing.T) {
	file := write(t, "config.yaml", "namespaces:\n  - match: a\n  - match: b\n    cache:\n      fresh_for: never\n")
	wantAll(t, refused(t, config.Sources{File: file}), `namespaces: entry 2, cache.fresh_for = "never"`, file+":5", "a duration")
}

func TestForDoesNotAllocate(t *testing.T) {
	for _, content := range []string{"", "namespaces: [{match: a-*, flush.linger: 1s}, {match: '[b-d]?*', flush.linger: 2s}]\n"} {
		c := &loadYAML(t, content).Config
		if n := testing.AllocsPerRun(100, func() { c.For("cab") }); n != 0 {
			t.Errorf("For allocates %v times with %q", n, content)
		}
	}
}

func TestSealedNeedsKeys(t *testing.T) {
	const namespaces = "namespaces: [{match: 'private-*', sealed: true}, {match: '*'}]\n"
	wantAll(t, refused(t, config.Sources{File: write(t, "config.yaml", namespaces)}), "namespaces", "seal.key_file", "sealed: true")
	loaded := loadYAML(t, namespaces+"seal.key_file: keys\n")
	if c := loaded.Config; !filepath.IsAbs(c.Seal.KeyFile) || !c.For("private-a").Sealed || c.For("public").Sealed {
		t.Errorf("in force: %+v", c)
	}
}
