package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/config"
)

func TestPrecedence(t *testing.T) {
	file := write(t, "config.yaml", "# a comment\nflush:\n  linger: 1s\n")
	environ := home(t, "BOTWIRED_FLUSH_LINGER=2s")
	flags := map[string]string{"flush.linger": "3s"}
	for _, test := range []struct {
		src           config.Sources
		value, source string
	}{
		{config.Sources{}, "100ms", "default"},
		{config.Sources{File: file}, "1s", "file " + file + ":3"},
		{config.Sources{File: file, Environ: environ}, "2s", "environment BOTWIRED_FLUSH_LINGER"},
		{config.Sources{Environ: environ}, "2s", "environment BOTWIRED_FLUSH_LINGER"},
		{config.Sources{File: file, Flags: flags}, "3s", "flag --flush-linger"},
		{config.Sources{File: file, Environ: environ, Flags: flags}, "3s", "flag --flush-linger"},
	} {
		loaded := load(t, test.src)
		if got := value(loaded, "flush.linger"); got != test.value {
			t.Errorf("%s: flush.linger = %s, want %s", test.source, got, test.value)
		}
		if got := loaded.Source("flush.linger").String(); got != test.source {
			t.Errorf("source %q, want %q", got, test.source)
		}
	}
}

func TestReplacedValuesAreCheckedToo(t *testing.T) {
	src := config.Sources{Environ: home(t, "BOTWIRED_FLUSH_LINGER=soon"), Flags: map[string]string{"flush.linger": "3s"}}
	wantAll(t, refused(t, src), "flush.linger", `"soon"`, "environment BOTWIRED_FLUSH_LINGER")
}

func TestWhichFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the default place is Linux's")
	}
	dir := t.TempDir()
	standard := filepath.Join(dir, "botwired", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(standard), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(standard, []byte("log.level: warn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	byEnv, byFlag := write(t, "env.yaml", "log.level: error\n"), write(t, "flag.yaml", "log.level: debug\n")
	xdg := "XDG_CONFIG_HOME=" + dir
	for _, test := range []struct {
		src  config.Sources
		want string
	}{
		{config.Sources{Environ: home(t, xdg)}, standard},
		{config.Sources{Environ: home(t, xdg, "BOTWIRED_CONFIG="+byEnv)}, byEnv},
		{config.Sources{Environ: home(t, xdg, "BOTWIRED_CONFIG="+byEnv), File: byFlag}, byFlag},
	} {
		if got := load(t, test.src).Source("log.level"); got.Name != test.want {
			t.Errorf("read %s, want %s", got, test.want)
		}
	}
}

func TestNamedFileMustBeReadable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	wantAll(t, refused(t, config.Sources{File: missing}), "configuration file", missing, "flag --config", "readable file")
	wantAll(t, refused(t, config.Sources{Environ: home(t, "BOTWIRED_CONFIG="+missing)}),
		"configuration file", missing, "environment BOTWIRED_CONFIG")
	wantAll(t, refused(t, config.Sources{File: t.TempDir()}), "configuration file", "directory")
	wantAll(t, refused(t, config.Sources{File: write(t, "big", fmt.Sprintf("#%1048577d", 0))}), "larger than 1MiB")
}

func TestFileForms(t *testing.T) {
	nested := loadYAML(t, `
upstream:
  url: https://memory.example/base/
  concurrency: 4
  headers: {x-team: red}
cache: {memory: 1048576, stale_if_error: none}
allowed_hosts: [Botwired, "::1"]
flush:
namespaces:
  - match: prod-*
    cache: {fresh_for: 1m}
`)
	flat := loadYAML(t, "\ufeffupstream.url: https://memory.example/base\r\nupstream.concurrency: 4\r\n"+
		"upstream.headers:\r\n  X-Team: red\r\ncache.memory: 1MiB\r\ncache.stale_if_error: no limit\r\n"+
		"allowed_hosts:\r\n  - botwired\r\n  - ::1\r\n"+
		"namespaces:\r\n- match: prod-*\r\n  cache.fresh_for: 1m\r\n")
	environment := load(t, config.Sources{Environ: home(t,
		"BOTWIRED_UPSTREAM_URL=https://memory.example/base", "BOTWIRED_UPSTREAM_CONCURRENCY=4",
		`BOTWIRED_UPSTREAM_HEADERS={"X-TEAM": "red"}`, "BOTWIRED_CACHE_MEMORY=1024 kib",
		"BOTWIRED_CACHE_STALE_IF_ERROR=none", `BOTWIRED_ALLOWED_HOSTS=["botwired","::1"]`,
		`BOTWIRED_NAMESPACES=[{"match":"prod-*","cache":{"fresh_for":"1m"}}]`)})
	for _, other := range []*config.Loaded{flat, environment} {
		other.Config.DataDir = nested.Config.DataDir
		if diff := cmp.Diff(nested.Config, other.Config, anyLine); diff != "" {
			t.Errorf("the same in another form (-nested +other):\n%s", diff)
		}
	}
	if got := nested.Config.Upstream.Headers["X-Team"]; got != "red" {
		t.Errorf("X-Team: %q", got)
	}
	if got := nested.Source("upstream.headers").Line; got != 5 {
		t.Errorf("upstream.headers is from line %d, want 5", got)
	}
}

// anyLine compares configurations of different files.
var anyLine = cmpopts.IgnoreFields(config.Override{}, "Line")

func TestEmptyFiles(t *testing.T) {
	for _, content := range []string{"", "# nothing\n", "---\n", "{}\n", "%YAML 1.2\n---\nlog.level: info\n", "# c\n---\nlog.level: info\n", "log.level: info\n...\n"} {
		if got := loadYAML(t, content).Config.Log.Level; got != "info" {
			t.Errorf("%q: log.level = %s", content, got)
		}
	}
}

// A printed value can be used unchanged in a file and in the environment.
func TestPrintedValuesCanBeRead(t *testing.T) {
	first := loadYAML(t, `
allowed_origins: [tauri://localhost, chrome-extension://abc]
cache: {stale_if_error: 36h, absent_for: 0, memory: 64MB}
flush.linger: 1500us
log.level: warn
namespaces:
  - {match: a*, cache.stale_if_error: no limit, quota.writes_per_day: 7, flush: {linger: 0s}}
  - match: '[b-d]?'
`)
	flags := map[string]string{}
	for _, v := range first.Values {
		flags[v.Name] = v.Value
	}
	second := load(t, config.Sources{Flags: flags})
	if diff := cmp.Diff(first.Config, second.Config, anyLine); diff != "" {
		t.Errorf("printed and read again (-before +after):\n%s", diff)
	}
}

// A variable that should have named the configuration, and is empty, does not leave the defaults in force.
func TestEmptyNameOfTheFile(t *testing.T) {
	wantAll(t, refused(t, config.Sources{Environ: home(t, "BOTWIRED_CONFIG=")}), "BOTWIRED_CONFIG", "expected the path of a file")
}
