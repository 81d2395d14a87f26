package config_test

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
)

// malformed returns values that Load must reject, for every setting.
func malformed() map[string][]string {
	durations := []string{"", "10", "soon", "1x", "-1s", "1h2d", "1d-1h", "9999999999d", "no limits"}
	positive := append([]string{"0", "0s"}, durations...)
	sizes := []string{"", "-1", "0.3KiB", "64Mo", "64 MiB B", "9999999TiB", "MiB"}
	counts := []string{"", "-1", "1.5", "many", "99999999999", "0x10"}
	lists := []string{"", "botwired", `"botwired"`, `{"a":1}`, `["a"`, `[1]`, `[null]`, `[["a"]]`, `[""]`, `["a"] ["b"]`}
	return map[string][]string{
		"listen": {"", "2689", "localhost", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "::1:2689", "a b:1",
			"http://127.0.0.1:1", "unix://relative", "unix:/x", "unix:///", "unix:///" + strings.Repeat("x", 120)},
		"allowed_hosts":   append([]string{`["a:1"]`, `["*"]`, `["http://a"]`, `["a..b"]`, `["a/b"]`}, lists...),
		"allowed_origins": append([]string{`["*"]`, `["null"]`, `["https://a/"]`, `["https://a/b"]`, `["https://u@a"]`, `["a.b"]`}, lists...),
		"data_dir":        {"", "a\x00b"},
		"offline":         {"", "yes", "Refuse"},
		"upstream.url": {"", "botwire.dev", "ftp://a", "https://", "https:a", "https://a?b", "https://a#", "https://u:p@a", "http://botwire.dev", "http://10.0.0.1", "https://a:99999", "https://a:", "https://a b", "https://a/memory", "https://a/b/memory//", "Embedded",
			"nats://", "nats:botwire", "nats://a,", "nats://a,,b", "nats://u:p@a", "nats://a,u@b", "nats://a/b", "nats://a?b", "nats://a:", "nats://a:x", "nats://a,tls://b", "nats://a b"},
		"upstream.timeout":             positive,
		"upstream.late_window":         durations,
		"upstream.concurrency":         append([]string{"0", "1025"}, counts...),
		"upstream.headers":             {"", "Authorization: x", `["a"]`, `{"a":1}`, `{"a":null}`, `{"a":{}}`, `{"a":{"file":"x","b":"y"}}`, `{"a":{"path":"x"}}`, `{"a":""}`, `{"a":" b"}`, `{"a":"b\nc"}`, `{"a b":"c"}`, `{"":"c"}`, `{"host":"c"}`, `{"Transfer-Encoding":"c"}`, `{"content-length":"1"}`, `{"a":"1","A":"2"}`, `{"a":"1","a":"2"}`, `{"a":{"file":"/nonexistent"}}`, `{"a":{"file":""}}`},
		"upstream.nats.bucket":         {"", "a b", "a.b", "a/b", "a*", "a>", "b\u00fccket", strings.Repeat("b", 65)},
		"upstream.nats.context":        {"", "a\x00b"},
		"upstream.nats.create":         {"", "maybe", "2", "truth"},
		"upstream.nats.replicas":       append([]string{"0", "6"}, counts...),
		"embedded.latency":             durations,
		"cache.memory":                 append([]string{"0"}, sizes...),
		"cache.fresh_for":              durations,
		"cache.stale_while_revalidate": durations,
		"cache.stale_if_error":         durations,
		"cache.absent_for":             durations,
		"history.disk":                 append([]string{"0", "1023KiB"}, sizes...),
		"cache.disk":                   append([]string{"0", "1023KiB"}, sizes...),
		"journal.max_bytes":            append([]string{"0"}, sizes...),
		"journal.disk_reserve":         sizes,
		"flush.linger":                 durations,
		"flush.drain_timeout":          durations,
		"quota.writes_per_day":         counts,
		"quota.period":                 append([]string{"999ms"}, positive...),
		"quota.max_age":                durations,
		"quota.namespace_bytes":        sizes,
		"auth.token_file":              {"", "/nonexistent", "a\x00b"},
		"seal.key_file":                {"", "a\x00b"},
		"log.level":                    {"", "loud", "INFO"},
		"namespaces": {"", `{}`, `[1]`, `["a"]`, `[{}]`, `[{"match":""}]`, `[{"match":"["}]`, `[{"match":"a.*"}]`, `[{"match":"a]"}]`, `[{"match":"` + strings.Repeat("?", 65) + `"}]`, `[{"match":1}]`,
			`[{"match":"a","match":"b"}]`, `[{"match":"a","cache.memory":"1MiB"}]`, `[{"match":"a","flush":{"drain_timeout":"1s"}}]`,
			`[{"match":"a","cache":"1s"}]`, `[{"match":"a","cache":{"fresh_for":"x"}}]`, `[{"match":"a","cache":{"fresh_for":"1s"},"cache.fresh_for":"2s"}]`,
			`[{"match":"a","quota.writes_per_day":true}]`, `[{"match":"a","nonsense":1}]`},
	}
}

func TestMalformedValues(t *testing.T) {
	rows := malformed()
	for _, setting := range config.Settings() {
		values, ok := rows[setting.Name]
		if !ok {
			t.Errorf("no malformed values for %s", setting.Name)
		}
		for _, bad := range values {
			message := refused(t, config.Sources{Environ: home(t, setting.Env()+"="+bad)})
			wantAll(t, message, setting.Name, "environment "+setting.Env(), ": expected ")
			if !strings.Contains(message, " = ") && setting.Name != "data_dir" {
				t.Errorf("error %q shows no value", message)
			}
			refused(t, config.Sources{Flags: map[string]string{setting.Name: bad}})
		}
	}
}

// In a file, Load rejects numbers, booleans and structures in the wrong place with the same words.
func TestMalformedTypesInFile(t *testing.T) {
	numbers := map[string]bool{"upstream.concurrency": true, "upstream.nats.replicas": true, "cache.memory": true, "cache.disk": true, "history.disk": true, "journal.max_bytes": true,
		"journal.disk_reserve": true, "quota.writes_per_day": true, "quota.namespace_bytes": true}
	for _, setting := range config.Settings() {
		bad := []string{"null", "~", "", ".nan", "1.5", "[[1]]", "[true]"}
		if setting.Name != "upstream.nats.create" {
			bad = append(bad, "true")
		}
		if !numbers[setting.Name] {
			bad = append(bad, "12")
		}
		if setting.Name != "upstream.headers" {
			bad = append(bad, "{a: 1}")
		}
		for _, value := range bad {
			file := write(t, "config.yaml", "\n"+setting.Name+": "+value+"\n")
			message := refused(t, config.Sources{File: file})
			wantAll(t, message, setting.Name, "file "+file+":2", ": expected ")
		}
	}
}

func TestErrorsInFull(t *testing.T) {
	file := write(t, "config.yaml", "flush:\n  linger: 1m\nlog: {level: loud}\n")
	for _, test := range []struct {
		name string
		src  config.Sources
		want string
	}{
		{"duration", config.Sources{Flags: map[string]string{"flush.linger": "soon"}},
			`flush.linger = "soon" (flag --flush-linger): expected a duration, zero or more, such as 200ms, 1m30s or 2d`},
		{"word", config.Sources{File: file},
			`log.level = "loud" (file ` + file + `:3): expected debug, info, warn or error`},
		{"off loopback", config.Sources{Flags: map[string]string{"listen": "0.0.0.0:2689"}},
			`listen = "0.0.0.0:2689" (flag --listen): expected a loopback address (localhost, 127.0.0.0/8 or ::1), or auth.token_file to be set as well`},
		{"plain http", config.Sources{Flags: map[string]string{"upstream.url": "http://botwire.dev"}},
			`upstream.url = "http://botwire.dev" (flag --upstream-url): expected https: plain http is for loopback addresses only`},
		{"the memory API's path", config.Sources{Flags: map[string]string{"upstream.url": "http://127.0.0.1:80/memory/"}},
			`upstream.url = "http://127.0.0.1:80/memory/" (flag --upstream-url): expected the URL without /memory, which botwired adds itself: http://127.0.0.1`},
		{"one of a list", config.Sources{Flags: map[string]string{"allowed_hosts": `["ok","a:1"]`}},
			`allowed_hosts = "a:1" (flag --allowed-hosts): expected a host name or an IP address without port`},
		{"not overridable", config.Sources{Flags: map[string]string{"namespaces": `[{"match":"a"},{"match":"b","flush":{"drain_timeout":"1s"}}]`}},
			`namespaces: entry 2, flush.drain_timeout = "1s" (flag --namespaces): expected match or one of the settings a namespace may have of its own: ` +
				`offline, cache.fresh_for, cache.stale_while_revalidate, cache.stale_if_error, cache.absent_for, flush.linger, quota.writes_per_day, quota.period, quota.max_age, quota.namespace_bytes, write_through, prefetch, sealed`},
	} {
		if diff := strings.Compare(test.want, refused(t, test.src)); diff != 0 {
			t.Errorf("%s:\n got %s\nwant %s", test.name, refused(t, test.src), test.want)
		}
	}
}

func TestListenerOffLoopbackNeedsToken(t *testing.T) {
	token := write(t, "token", "abc\n")
	for _, off := range []string{"0.0.0.0:1", ":1", "[::]:1", "192.168.1.2:1", "botwired:1", "127.0.0.1.nip.io:1", "[::ffff:10.0.0.1]:1"} {
		wantAll(t, refused(t, config.Sources{Flags: map[string]string{"listen": off}}), "listen", off, "auth.token_file")
		load(t, config.Sources{Flags: map[string]string{"listen": off, "auth.token_file": token}})
	}
	for _, on := range []string{"localhost:1", "LOCALHOST:1", "127.0.0.1:0", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:///run/x.sock"} {
		load(t, config.Sources{Flags: map[string]string{"listen": on}})
	}
}
