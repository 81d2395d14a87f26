package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
)

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"statsu"}, []string{`unknown command "statsu"`, "botwired --help", "did you mean status?"}},
		{[]string{"dead-letters", "retyr"}, []string{`unknown command "retyr"`, "did you mean retry?"}},
		{[]string{"status", "now"}, []string{`unexpected argument "now"`, "botwired status"}},
		{[]string{"config", "--flush-lingr=1s"}, []string{`--flush-lingr = "1s" (flag)`, "did you mean --flush-linger?"}},
		{[]string{"config", "--auth-tokn=s3cret"}, []string{"--auth-tokn = (redacted) (flag)"}},
		{[]string{"config", "--temperature", "1"}, []string{"--temperature (flag): expected one of the flags"}},
		{[]string{"config", "-x"}, []string{"unknown shorthand flag"}},
		{[]string{"config", "--listen"}, []string{"flag needs an argument: --listen"}},
		{[]string{"get", "ns"}, []string{"botwired get NAMESPACE KEY"}},
		{[]string{"get", "ns", ""}, []string{"argument 2 is empty"}},
		{[]string{"set", "a", "b", "c", "d"}, []string{"botwired set NAMESPACE KEY"}},
		{[]string{"list"}, []string{"botwired list NAMESPACE"}},
		{[]string{"dead-letters", "retry"}, []string{"botwired dead-letters retry ID..."}},
		{[]string{"flush", "--timeout", "soon"}, []string{`--timeout = "soon"`}},
		{[]string{"flush", "--timeout", "0"}, []string{`--timeout = "0"`}},
		{[]string{"pending", "--limit", "0"}, []string{"--limit = 0"}},
		{[]string{"pending", "--limit", "x"}, []string{"--limit"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := botwired(t, test.args...)
			wantFailure(t, got, exitUsage, test.want...)
			if strings.Contains(got.stderr, "s3cret") {
				t.Error("the secret is shown")
			}
		})
	}
}

func TestRefusedSettings(t *testing.T) {
	wantFailure(t, botwired(t, "config", "--listen", "0.0.0.0:1"), exitError, `listen = "0.0.0.0:1" (flag --listen)`, "auth.token_file")
	wantFailure(t, botwired(t, "status", "--config", "/nonexistent"), exitError, "configuration file", "/nonexistent")
	t.Setenv("BOTWIRED_LOG_LEVEL", "loud")
	for _, command := range []string{"config", "serve", "selfhost", "status"} {
		wantFailure(t, botwired(t, command), exitError, `log.level = "loud" (environment BOTWIRED_LOG_LEVEL)`)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"serve", "--help"}} {
		got := botwired(t, args...)
		if got.code != exitOK || got.stderr != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, got.code, got.stderr)
		}
		for _, s := range config.Settings() {
			if !strings.Contains(got.stdout, "--"+s.Flag()+" ") {
				t.Errorf("%v does not mention --%s", args, s.Flag())
			}
		}
	}
	if got := botwired(t, "completion", "bash"); got.code != exitOK || !strings.Contains(got.stdout, "botwired") {
		t.Errorf("completion: %+v", got)
	}
}

// settingsOf runs "config --json".
func settingsOf(t *testing.T, args ...string) map[string]settingJSON {
	t.Helper()
	got := botwired(t, append([]string{"config", "--json"}, args...)...)
	if got.code != exitOK || got.stderr != "" {
		t.Fatalf("config %v: exit code %d, stderr %q", args, got.code, got.stderr)
	}
	var printed struct{ Settings []settingJSON }
	if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil {
		t.Fatal(err)
	}
	out := map[string]settingJSON{}
	for _, s := range printed.Settings {
		out[s.Name] = s
	}
	return out
}

func TestSpellingsOfFlags(t *testing.T) {
	for flag, want := range map[string]settingJSON{
		"--flush-linger":         {"flush.linger", "7s", "flag --flush-linger"},
		"--flush.linger":         {"flush.linger", "7s", "flag --flush-linger"},
		"--flush_linger":         {"flush.linger", "7s", "flag --flush-linger"},
		"--latency":              {"embedded.latency", "7s", "flag --embedded-latency"},
		"--flush.drain_timeout":  {"flush.drain_timeout", "7s", "flag --flush-drain-timeout"},
		"--cache.stale-if_error": {"cache.stale_if_error", "7s", "flag --cache-stale-if-error"},
		"--upstream.late_window": {"upstream.late_window", "7s", "flag --upstream-late-window"},
		"--embedded.latency":     {"embedded.latency", "7s", "flag --embedded-latency"},
	} {
		if got := settingsOf(t, flag, "7s")[want.Name]; got != want {
			t.Errorf("%s: %+v, want %+v", flag, got, want)
		}
		if got := settingsOf(t, flag+"=1s", flag+"=7s")[want.Name]; got != want {
			t.Errorf("%s twice: %+v, want the last: %+v", flag, got, want)
		}
	}
	if got := settingsOf(t, "--upstream", "embedded"); got["upstream.url"].Value != "embedded" || got["quota.writes_per_day"].Value != "0" {
		t.Errorf("--upstream embedded: %+v", got)
	}
}

func TestConfigCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	content := "log:\n  level: warn\nupstream.headers: {authorization: Bearer s3cret}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BOTWIRED_CACHE_MEMORY", "1048576")
	got := botwired(t, "config", "--config", file, "--flush.linger", "60s")
	if got.code != exitOK || got.stderr != "" || strings.Contains(got.stdout, "s3cret") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", got.code, got.stderr, got.stdout)
	}
	rows := map[string]string{}
	for line := range strings.Lines(got.stdout) {
		fields := strings.Fields(line)
		rows[fields[0]] = strings.Join(fields[1:], " ")
	}
	for name, want := range map[string]string{
		"SETTING":          "VALUE SOURCE",
		"listen":           "127.0.0.1:2689 default",
		"log.level":        "warn file " + file + ":2",
		"upstream.headers": `{"Authorization":"(redacted)"} file ` + file + ":3",
		"cache.memory":     "1MiB environment BOTWIRED_CACHE_MEMORY",
		"flush.linger":     "1m flag --flush-linger",
		"auth.token_file":  "none default",
	} {
		if rows[name] != want {
			t.Errorf("%s is printed as %q, want %q", name, rows[name], want)
		}
	}
	if len(rows) != len(config.Settings())+1 {
		t.Errorf("%d rows for %d settings", len(rows), len(config.Settings()))
	}
}

func TestVersionCommand(t *testing.T) {
	if got := botwired(t, "version"); got.code != exitOK || !strings.Contains(got.stdout, runtime.Version()) {
		t.Errorf("%+v", got)
	}
	got := botwired(t, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(got.stdout), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(thisBuild(), b); diff != "" || b.Version == "" {
		t.Errorf("version --json (-want +got):\n%s", diff)
	}
}
