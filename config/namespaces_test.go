package config_test

import (
	"path/filepath"
	"slices"
	"strings"
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
		AbsentFor: 2 * time.Second, Linger: 100 * time.Millisecond, Offline: "refuse",
		Quota: config.Quota{WritesPerDay: 1000, Period: 24 * time.Hour, MaxAge: 15 * time.Minute, NamespaceBytes: 50_000_000},
	}
	first := general
	first.FreshFor, first.StaleIfError = time.Minute, 48*time.Hour
	first.Quota = config.Quota{WritesPerDay: 50, Period: time.Hour, MaxAge: time.Minute, NamespaceBytes: 50 << 20}
	first.Linger, first.AbsentFor, first.StaleWhileRevalidate = 0, 9*time.Second, 0
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

// An entry overrides what it sets, and nothing else: an entry in front of it for all namespaces, which sets
// something else, leaves it in force.
func TestOverridesAreMerged(t *testing.T) {
	file := write(t, "config.yaml", `
seal.key_file: keys
cache.absent_for: 7s
namespaces:
  - {match: "*", offline: assume-absent, cache.fresh_for: 1m}
  - match: private-*
    sealed: true
    cache.fresh_for: 2m
    flush.linger: 1s
  - {match: private-a, flush.linger: 3s, write_through: true}
`)
	loaded, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	got := loaded.Config.For("private-a")
	if !got.Sealed || got.Offline != config.AssumeAbsent || got.FreshFor != time.Minute || got.Linger != time.Second ||
		!got.WriteThrough || got.AbsentFor != 7*time.Second {
		t.Errorf("For(private-a) = %+v", got)
	}
	if rules := loaded.Config.Sealing(); !config.IsSealed(rules, "private-a") || config.IsSealed(rules, "public") {
		t.Errorf("sealing goes by %q", rules)
	}
	want := map[string]string{
		"sealed": "true file " + file + ":6, match: private-*", "offline": "assume-absent file " + file + ":5, match: *",
		"cache.fresh_for": "1m file " + file + ":5, match: *", "write_through": "true file " + file + ":10, match: private-a",
		"cache.absent_for": "7s file " + file + ":3", "prefetch": "false default",
	}
	for _, v := range loaded.For("private-a") {
		if got := v.Value + " " + v.Source.String(); want[v.Name] != "" && got != want[v.Name] {
			t.Errorf("%s: %s, want %s", v.Name, got, want[v.Name])
		}
		delete(want, v.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// A sealed: true that no namespace would follow is refused, and one that some namespace follows is not.
func TestSealThatNeverApplies(t *testing.T) {
	for namespaces, never := range map[string]bool{
		`{match: "*", sealed: false}, {match: private-*, sealed: true}`:                                  true,
		`{match: "private-*", sealed: false}, {match: private-*, sealed: true}`:                          true,
		`{match: "private-a*", sealed: false}, {match: private-*, sealed: true}`:                         false,
		`{match: "?*", sealed: false}, {match: "[a-c]", sealed: true}`:                                   true,
		`{match: "[a-m]*", sealed: false}, {match: "[^a-m]*", sealed: false}, {match: x, sealed: true}`:  true,
		`{match: "[a-m]*", sealed: false}, {match: "[n-z]*", sealed: false}, {match: "*", sealed: true}`: false,
		`{match: "*-a", sealed: false}, {match: "b-*", sealed: true}`:                                    false,
		`{match: "b*a", sealed: false}, {match: "b-*-a", sealed: true}`:                                  true,
		`{match: "*", sealed: true}, {match: "private-*", sealed: true}`:                                 false,
		`{match: "*", offline: refuse}, {match: private-*, sealed: true}`:                                false,
		`{match: x, sealed: true}, {match: "*", sealed: false}`:                                          false,
		`{match: "*a????????????????", sealed: false}, {match: "*b???????????????????a*", sealed: true}`: false,
		`{match: "private-x", sealed: false}, {match: "private-?", sealed: true}, {match: "*"}`:          false,
		`{match: "a", sealed: false}, {match: "b", sealed: false}, {match: "[ab]", sealed: true}`:        true,
		`{match: "a", sealed: false}, {match: "b", sealed: false}, {match: "[abc]", sealed: true}`:       false,
		`{match: "a-*", sealed: false}, {match: "a-*b", sealed: true}, {match: "a*", sealed: true}`:      true,
		`{match: "a*", sealed: true}, {match: "ab*", sealed: false}, {match: "abc*", sealed: true}`:      false,
		`{match: "a", sealed: true}, {match: "*", sealed: false}, {match: "[ab]", sealed: true}`:         false,
		`{match: "*", sealed: false}, {match: "a", sealed: true}, {match: "[ab]", sealed: true}`:         true,
	} {
		file := write(t, "config.yaml", "seal.key_file: keys\nnamespaces: ["+namespaces+"]\n")
		_, err := config.Load(config.Sources{File: file})
		if never != (err != nil) {
			t.Errorf("%s: %v", namespaces, err)
		}
		if never {
			wantAll(t, err.Error(), "namespaces: entry ", "sealed = true", "sealed: false")
		}
	}
}

// Each sealed: true that never applies is named with its line, at a reload, too. Any other setting that never applies
// is a warning.
func TestSettingsThatNeverApply(t *testing.T) {
	file := write(t, "config.yaml", `
seal.key_file: keys
namespaces:
  - match: private-*
    sealed: false
    write_through: false
  - {match: private-a, flush.linger: 1s, sealed: true}
  - match: private-b
    sealed: true
  - {match: "*-b", write_through: true, sealed: true}
  - {match: private-?, write_through: true, flush.linger: 2s}
`)
	loaded, faults := config.Check(config.Sources{Environ: home(t), File: file})
	if len(faults) != 2 {
		t.Fatalf("errors: %q", faults)
	}
	wantAll(t, faults[0].Error(), "namespaces: entry 2, sealed = true (file "+file+":7)", "sealed: false for every one that private-a matches")
	wantAll(t, faults[1].Error(), "namespaces: entry 3, sealed = true (file "+file+":8)")
	const warning = "namespaces: entry 5, write_through = true"
	if i := slices.IndexFunc(loaded.Warnings, func(w string) bool { return strings.HasPrefix(w, warning) }); i < 0 || !strings.Contains(loaded.Warnings[i], file+":11") {
		t.Errorf("warnings: %q", loaded.Warnings)
	}
	for _, counts := range []string{"entry 4", "flush.linger"} {
		if strings.Contains(strings.Join(loaded.Warnings, " "), counts) {
			t.Errorf("warnings about %s: %q", counts, loaded.Warnings)
		}
	}
}
