package config_test

import (
	"testing"

	"github.com/botwired/botwired/config"
)

func TestUnknownSettings(t *testing.T) {
	for _, test := range []struct {
		name string
		src  config.Sources
		want []string
	}{
		{"variable", config.Sources{Environ: home(t, "BOTWIRED_FLUSH_LINGR=1s")},
			[]string{`BOTWIRED_FLUSH_LINGR = "1s" (environment): expected`, "did you mean BOTWIRED_FLUSH_LINGER?"}},
		{"variable without group", config.Sources{Environ: home(t, "BOTWIRED_UPSTREAM=http://127.0.0.1:1")}, []string{"did you mean BOTWIRED_UPSTREAM_URL?"}},
		{"short variable", config.Sources{Environ: home(t, "BOTWIRED_LATENCY=0s")}, []string{"did you mean BOTWIRED_EMBEDDED_LATENCY?"}},
		{"far variable", config.Sources{Environ: home(t, "BOTWIRED_COLOUR=red")}, []string{`BOTWIRED_COLOUR = "red"`, "botwired config"}},
		{"port that is meant", config.Sources{Environ: home(t, "BOTWIRED_PORT=2689")}, []string{`BOTWIRED_PORT = "2689"`}},
		{"flag", config.Sources{Flags: map[string]string{"listne": "x"}}, []string{`listne = "x" (flag --listne)`, "did you mean listen?"}},
		{"key", config.Sources{File: write(t, "a.yaml", "log:\n  level: info\nflush:\n  lingre: 1s\n")},
			[]string{`flush.lingre = "1s" (file /`, "a.yaml:4)", "did you mean flush.linger?"}},
		{"setting of a namespace", config.Sources{File: write(t, "a.yaml", "write_through: true\n")},
			[]string{"write_through = true (file /", "a.yaml:1)", "expected it in an entry of namespaces"}},
		{"flat key", config.Sources{File: write(t, "a.yaml", "log.levle: info\n")}, []string{`log.levle = "info"`, "did you mean log.level?"}},
		{"key without group", config.Sources{File: write(t, "a.yaml", "linger: 1s\n")}, []string{`linger = "1s"`, "did you mean flush.linger?"}},
		{"key with dashes", config.Sources{File: write(t, "a.yaml", "data-dir: /x\n")}, []string{"did you mean data_dir?"}},
		{"group", config.Sources{File: write(t, "a.yaml", "\nnonsense:\n  a: 1\n")}, []string{"nonsense = (redacted)", "a.yaml:2)"}},
		{"group as a value", config.Sources{File: write(t, "a.yaml", "upstream: https://a\n")},
			[]string{`upstream = "https://a"`, "a mapping of settings below it"}},
		{"setting as a group", config.Sources{File: write(t, "a.yaml", "listen:\n  host: x\n")}, []string{"listen = ", "host:port"}},
	} {
		t.Run(test.name, func(t *testing.T) { wantAll(t, refused(t, test.src), test.want...) })
	}
}

func TestInjectedVariablesAreIgnored(t *testing.T) {
	load(t, config.Sources{Environ: home(t,
		"BOTWIRED_SERVICE_HOST=10.0.0.1", "BOTWIRED_SERVICE_PORT=2689", "BOTWIRED_SERVICE_PORT_HTTP=2689",
		"BOTWIRED_PORT=tcp://10.0.0.1:2689", "BOTWIRED_PORT_2689_TCP=tcp://10.0.0.1:2689",
		"BOTWIRED_PORT_2689_TCP_PROTO=tcp", "BOTWIRED_PORT_2689_TCP_PORT=2689", "BOTWIRED_PORT_2689_TCP_ADDR=10.0.0.1",
		"BOTWIRED_METRICS_SERVICE_HOST=10.0.0.2", "BOTWIRED_METRICS_PORT=tcp://10.0.0.2:1",
		"BOTWIRED_NAME=/agents/botwired", "BOTWIRED_ENV_PATH=/bin", "BOTWIREDX=1", "NOT_BOTWIRED_X=1")})
}

// A shell that completes a command line sets variables.
func TestVariablesOfCompletionAreIgnored(t *testing.T) {
	load(t, config.Sources{Environ: home(t, "BOTWIRED_ACTIVE_HELP=0", "BOTWIRED_COMPLETION_DESCRIPTIONS=false", "BOTWIRED_AUTHOR=me")})
	wantAll(t, refused(t, config.Sources{Environ: home(t, "BOTWIRED_ACTIVE_HELPER=0")}), []string{"BOTWIRED_ACTIVE_HELPER"}...)
}

func TestFaultyFiles(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          []string
	}{
		{"duplicate", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", []string{`listen = "127.0.0.1:2"`, ":2)", "line 1 has it already"}},
		{"duplicate in a group", "log:\n  level: info\n  level: warn\n", []string{"log.level", ":3)", "line 2 has it"}},
		{"duplicate in two groups", "log: {level: info}\nlog: {level: warn}\n", []string{"log.level", ":2)"}},
		{"duplicate in two spellings", "log: {level: info}\nlog.level: warn\n", []string{"log.level", ":2)", "line 1"}},
		{"two documents", "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", []string{":2", "one YAML document"}},
		{"an empty second one", "listen: 127.0.0.1:1\n---\n", []string{"one YAML document"}},
		{"list", "- listen\n", []string{":1", "a mapping of settings"}},
		{"scalar", "\nlisten\n", []string{":2", "a mapping of settings"}},
		{"anchor", "log:\n  level: &a info\n", []string{":2", "without anchors"}},
		{"merge key", "<<: {a: b}\n", []string{":1", "a name before the colon"}},
		{"tag", "listen: !!str x\n", []string{":1", "tags"}},
		{"number as a key", "1: x\n", []string{":1", "a name before the colon"}},
		{"syntax", "log:\n  level: [s3cret\n", []string{":2", "YAML; sequence end token"}},
		{"tab", "log:\n\tlevel: info\n", []string{":2", "YAML"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := write(t, "config.yaml", test.content)
			wantAll(t, refused(t, config.Sources{File: file}), append(test.want, file, "expected ")...)
		})
	}
}
