package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

// check returns the texts of all errors of a configuration, without its file's path.
func check(t *testing.T, content string, environ ...string) []string {
	t.Helper()
	file := write(t, "config.yaml", content)
	loaded, faults := config.Check(config.Sources{Environ: home(t, environ...), File: file})
	if loaded == nil || loaded.File != file {
		t.Fatalf("the file is not %s: %+v", file, loaded)
	}
	texts := make([]string, len(faults))
	for i, e := range faults {
		texts[i] = strings.ReplaceAll(e.Error(), file, "FILE")
		if strings.Contains(e.Source.String(), file) != (e.Source.Line > 0) {
			t.Errorf("the line is %d: %s", e.Source.Line, e)
		}
	}
	return texts
}

// Check reports every error at once, in Load's words.
func TestCheckFindsEveryMistake(t *testing.T) {
	got := check(t, `listen: 2689
flush:
  linger: soon
  lingr: 1s
quota.period: 1ms
flush.linger: 1s
upstream:
  headers: {"a b": s3cret, host: s3cret}
namespaces:
  - {match: "a.*", flush.linger: x, prefetsh: true}
  - {prefetch: true}
`, "BOTWIRED_LOG_LEVEL=loud", "BOTWIRED_FLUSH_LINGR=1s")
	want := []string{
		`listen = 2689 (file FILE:1): expected host:port, such as 127.0.0.1:2689, or unix:///absolute/path`,
		`flush.linger = "soon" (file FILE:3): expected a duration, zero or more, such as 200ms, 1m30s or 2d`,
		`flush.lingr = "1s" (file FILE:4): expected one of the settings that "botwired config" lists; did you mean flush.linger?`,
		`quota.period = "1ms" (file FILE:5): expected a duration, at least 1s, such as 200ms, 1m30s or 2d`,
		`flush.linger = "1s" (file FILE:6): expected each setting once, but line 3 has it already`,
		`upstream.headers: (redacted) = (redacted) (file FILE:8): expected a header name (RFC 9110 section 5.1)`,
		`upstream.headers: host = (redacted) (file FILE:8): expected a header that botwired does not set itself`,
		`namespaces: entry 1, match = "a.*" (file FILE:10): expected a pattern of namespaces, such as prod-* or test-[0-9]`,
		`namespaces: entry 1, flush.linger = "x" (file FILE:10): expected a duration, zero or more, such as 200ms, 1m30s or 2d`,
		`namespaces: entry 1, prefetsh = true (file FILE:10): expected match or one of the settings a namespace may have of its own: …; did you mean prefetch?`,
		`namespaces: entry 2 = {"prefetch": true} (file FILE:11): expected match: PATTERN in it`,
		`BOTWIRED_FLUSH_LINGR = "1s" (environment): expected a variable of one of the settings that "botwired config" lists; did you mean BOTWIRED_FLUSH_LINGER?`,
		`log.level = "loud" (environment BOTWIRED_LOG_LEVEL): expected debug, info, warn or error`,
	}
	for i, text := range got { // the list of settings is long
		if before, after, found := strings.Cut(text, "of its own: "); found {
			got[i] = before + "of its own: …" + after[strings.Index(after, ";"):]
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// Settings are compared with each other only if they are valid.
func TestCheckComparesWhatIsRight(t *testing.T) {
	if one := check(t, "listen: 0.0.0.0:1\n"); len(one) != 1 || !strings.Contains(one[0], "auth.token_file to be set") {
		t.Errorf("errors: %q", one)
	}
	if one := check(t, "listen: 0.0.0.0:1\nauth.token_file: 1\n"); len(one) != 1 || !strings.Contains(one[0], "auth.token_file = 1") {
		t.Errorf("errors: %q", one)
	}
}

func TestCheckOfFiles(t *testing.T) {
	if got := check(t, "log: [s3cret\n", "BOTWIRED_LOG_LEVEL=loud"); len(got) != 2 || !strings.HasPrefix(got[0], "file FILE:") {
		t.Errorf("of a file that is no YAML, and a variable: %q", got)
	}
	loaded, faults := config.Check(config.Sources{Environ: home(t), File: "/nonexistent"})
	if len(faults) != 1 || faults[0].Setting != "configuration file" || loaded.File != "" {
		t.Errorf("of no file: %q", faults)
	}
	loaded, faults = config.Check(config.Sources{Environ: home(t)})
	if len(faults) != 0 || loaded.Config.Listen != "127.0.0.1:2689" {
		t.Errorf("of nothing: %q", faults)
	}
}

// A value's Default is right, even if it depends on upstream or on the command.
func TestValuesKnowTheirDefaults(t *testing.T) {
	of := func(l *config.Loaded, name string) string {
		i := slices.IndexFunc(l.Values, func(v config.Value) bool { return v.Name == name })
		return l.Values[i].Default
	}
	environ := home(t)
	loaded := load(t, config.Sources{Environ: environ, File: write(t, "a.yaml", "upstream.url: embedded\nquota.writes_per_day: 5\nlisten: 127.0.0.1:1\n"),
		Defaults: map[string]string{"embedded.latency": "0s"}})
	for name, want := range map[string]string{
		"upstream.url": "https://botwire.dev", "quota.writes_per_day": "0", "listen": "127.0.0.1:2689",
		"embedded.latency": "0s", "data_dir": config.DefaultDataDir(environ),
	} {
		if got := of(loaded, name); got != want {
			t.Errorf("the default of %s is %q, not %q", name, got, want)
		}
	}
	again, err := config.Reload(loaded, loaded)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := of(again.Loaded, "data_dir"), of(loaded, "data_dir"); got != want {
		t.Errorf("after a reload, the default of data_dir is %q, not %q", got, want)
	}
}
