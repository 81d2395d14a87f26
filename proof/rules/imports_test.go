package rules

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A layer is what a folder may import of the project. Everything that a folder may not
// import is a reason to think again about who knows whom.
type layer struct {
	folder string   // such as journal, or journal/... with all beneath it
	may    []string // in the same form
}

// layers has the most particular folder first: the first that fits counts. Tests may
// import what they like.
var layers = []layer{
	{"proof/...", []string{"..."}},

	// Only the command knows all packages, and only it translates the configuration.
	{"cmd/botwired", []string{"api", "cache", "config", "internal/...", "journal", "proxy/...", "upstream/..."}},

	// The documents of the daemon's surface, which others may import, and their client.
	{"api", []string{"internal/sse", "internal/wire"}},

	// What a command needs of a daemon, and of the person at a terminal.
	{"internal/attach", []string{"api", "config", "internal/cli/term", "internal/service", "internal/wire", "internal/words"}},
	{"internal/cli/term", []string{"internal/words"}},

	// The commands ask a daemon by package api. Only doctor asks upstream itself.
	{"internal/cli", []string{"api", "config", "internal/..."}},
	{"internal/doctor", []string{"api", "config", "internal/attach", "internal/binding", "internal/build", "internal/cli/term", "internal/engines", "internal/listen", "internal/seal", "internal/wire", "internal/words", "journal", "upstream/..."}},
	{"internal/binding", []string{"config", "internal/attach", "internal/linefile", "internal/words", "journal"}},
	{"internal/engines", []string{"config", "internal/build", "internal/linefile", "internal/seal", "internal/selfhost", "internal/tasks", "internal/via", "internal/wire", "internal/words", "journal", "upstream", "upstream/botwire", "upstream/natskv", "upstream/sealed"}},
	{"internal/listen", []string{"config", "internal/words"}},
	{"internal/serverlog", []string{"config"}},
	{"internal/drill/throwaway", []string{"api", "internal/child", "internal/drill", "internal/faulty", "internal/selfhost"}},

	// MCP knows the daemon by its HTTP alone.
	{"internal/mcp", []string{"api", "internal/keyname", "internal/tasks", "internal/wire"}},

	// The drill asks a daemon by package api, and has its upstream fail by an interface of its own.
	{"internal/drill", []string{"api", "internal/faulty", "internal/numbered", "internal/tasks"}},

	// The memory knows upstream by an interface of its own, and no HTTP.
	{"proxy/memory", []string{"cache", "internal/metrics", "internal/tasks", "internal/trace", "internal/wire", "journal"}},
	// The surface stands over the memory and knows no server.
	{"proxy/surface", []string{"proxy/memory", "proxy/dashboard", "proxy/openapi", "api", "cache", "internal/...", "journal"}},
	{"proxy/...", []string{"proxy/...", "api", "cache", "internal/...", "journal"}},

	// The engines know upstream, and upstream knows no engine and no caller.
	{"upstream/botwire", []string{"upstream", "internal/...", "journal"}},
	{"upstream/natskv", []string{"upstream", "internal/...", "journal"}},
	{"upstream/sealed", []string{"upstream", "internal/seal", "internal/wire", "internal/words", "journal"}},
	{"upstream/quota", []string{"internal/diskfs", "internal/hashtable"}},
	{"upstream/flush", []string{"upstream", "upstream/schedule", "upstream/fence", "upstream/limit", "upstream/quota", "internal/...", "journal"}},
	{"upstream/fence", []string{"upstream", "journal"}},
	{"upstream/schedule", []string{"upstream", "upstream/limit", "upstream/quota", "internal/hashtable", "journal"}},
	{"upstream", []string{"upstream/limit", "internal/...", "journal"}},
	{"upstream/limit", nil},

	// The journal knows nothing of the project but its own layers, and they look down only.
	{"journal", []string{"journal/queue", "journal/entries", "journal/internal/...", "internal/bootclock", "internal/diskfs"}},
	{"journal/entries", []string{"journal/queue", "journal/internal/record", "journal/internal/store", "journal/internal/walk"}},
	{"journal/queue", []string{"journal/internal/pending", "journal/internal/record", "journal/internal/store"}},
	{"journal/internal/recovery", []string{"journal/internal/store", "internal/diskfs", "journal/internal/record"}},
	{"journal/internal/pending", []string{"journal/internal/record", "internal/hashtable"}},
	{"journal/internal/store", []string{"internal/diskfs", "journal/internal/record"}},
	{"journal/internal/walk", []string{"journal/internal/record"}},
	{"journal/internal/record", nil},

	// Spans know nothing of what they are about.
	{"internal/telemetry", []string{"internal/trace"}},

	// The memory service knows nothing of the daemon in front of it.
	{"internal/fastpath", []string{"internal/pipe"}},
	{"internal/selfhost", []string{"internal/guard", "internal/httplog", "internal/pipe", "internal/tasks", "internal/wire"}},

	// Keys as people write them are those that BotWire refuses.
	{"internal/keyname", []string{"internal/wire"}},

	// The metrics read the parts whose state they show.
	{"internal/metrics", []string{"api", "cache", "journal"}},

	// Leaves.
	{"cache", nil},
	{"config", nil},
	{"internal/...", nil},
	{"docs", nil},
}

// A module is used in its own field only.
var modules = map[string][]string{
	"github.com/cockroachdb/pebble/v2":                  {"internal/diskfs", "journal/...", "upstream/quota"},
	"github.com/dgraph-io/ristretto/v2":                 {"cache"},
	"github.com/cenkalti/backoff/v4":                    {"internal/attach", "upstream", "upstream/flush", "upstream/schedule"},
	"modernc.org/sqlite":                                {"internal/selfhost"},
	"github.com/nats-io/nats.go":                        {"upstream/natskv", "proof/cluster/..."},
	"github.com/nats-io/nats-server/v2":                 {"proof/cluster/..."},
	"github.com/tink-crypto/tink-go/v2":                 {"proof/tink/..."},
	"github.com/goccy/go-yaml":                          {"config", "proxy/openapi"},
	"github.com/tailscale/hujson":                       {"internal/mcpconfig"},
	"github.com/spf13/cobra":                            {"cmd/botwired", "internal/cli"},
	"github.com/aymanbagabas/go-udiff":                  {"internal/cli"},
	"github.com/spf13/pflag":                            {"cmd/botwired", "internal/cli"},
	"github.com/prometheus/client_golang":               {"internal/metrics"},
	"github.com/prometheus/client_model":                {"internal/metrics"},
	"golang.org/x/net":                                  {"config"},
	"go.opentelemetry.io/otel":                          {"internal/telemetry"},
	"go.opentelemetry.io/otel/sdk":                      {"internal/telemetry"},
	"go.opentelemetry.io/otel/trace":                    {"internal/telemetry"},
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace": {"internal/telemetry"},
	"go.opentelemetry.io/proto/otlp":                    {"internal/telemetry"},
	"google.golang.org/protobuf":                        {"internal/telemetry"},
	"golang.org/x/sync":                                 {"..."},
	"github.com/google/go-cmp":                          {"proof/..."},
	"github.com/santhosh-tekuri/jsonschema/v6":          {"proof/..."},
	"github.com/anishathalye/porcupine":                 {"proof/..."},
	"go.uber.org/goleak":                                {"proof/..."},
	"pgregory.net/rapid":                                {"proof/..."},
	"github.com/coreos/go-systemd/v22":                  {"internal/service"},
	"golang.org/x/term":                                 {"internal/cli/term"},
	"github.com/modelcontextprotocol/go-sdk":            {"internal/mcp"},
	"github.com/google/jsonschema-go":                   {"internal/mcp"},
	"github.com/BurntSushi/toml":                        {"proof/..."},
	"github.com/creack/pty":                             {"proof/..."},
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := judge(s.folder, path); wrong != "" {
				t.Errorf("%s: %s", s.path, wrong)
			}
		}
	}
}

// judge says what is wrong with an import; empty if nothing is.
func judge(folder, path string) string {
	if own, ok := strings.CutPrefix(path, module+"/"); ok {
		i := slices.IndexFunc(layers, func(l layer) bool { return fits(l.folder, folder) })
		if i < 0 {
			return folder + " has no place among the layers"
		}
		if !fitsAny(layers[i].may, own) {
			return folder + " may not import " + own
		}
		return ""
	}
	first, _, _ := strings.Cut(path, "/")
	if (folder == "upstream" || folder == "upstream/flush" || folder == "proxy/memory") && first == "net" {
		return folder + " may not use " + path + ": it speaks no protocol"
	}
	if !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for name, where := range modules {
		if path == name || strings.HasPrefix(path, name+"/") {
			if !fitsAny(where, folder) {
				return folder + " may not use " + name
			}
			return ""
		}
	}
	return path + " is of a module that nobody has agreed to"
}

func fitsAny(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, folder) })
}

func fits(pattern, folder string) bool {
	above, all := strings.CutSuffix(pattern, "...")
	if !all {
		return pattern == folder
	}
	return strings.HasPrefix(folder+"/", above)
}

// The rule itself refuses what it is there for.
func TestForbiddenImportsAreSeen(t *testing.T) {
	for _, c := range [][2]string{
		{"journal", module + "/upstream"},
		{"journal/internal/store", module + "/journal"},
		{"journal/internal/store", module + "/journal/internal/pending"},
		{"journal/internal/new", module + "/journal/internal/record"},
		{"cache", module + "/journal"},
		{"proxy", module + "/upstream"},
		{"proxy", module + "/journal/internal/store"},
		{"proxy", module + "/config"},
		{"internal/mcp", module + "/proxy"},
		{"upstream", module + "/upstream/botwire"},
		{"upstream", module + "/upstream/flush"},
		{"upstream/limit", module + "/upstream"},
		{"upstream/flush", module + "/upstream/natskv"},
		{"upstream", "net/http"},
		{"proxy/memory", "net/http"},
		{"proxy/memory", module + "/proxy"},
		{"proxy/memory", module + "/proxy/surface"},
		{"proxy/surface", module + "/proxy"},
		{"internal/selfhost", module + "/upstream"},
		{"cmd/botwired", module + "/proof/bench"},
		{"other", module + "/cache"},
		{"proxy", "github.com/cockroachdb/pebble/v2/vfs"},
		{"cmd/botwired", "pgregory.net/rapid"},
		{"journal", "github.com/another/module"},
	} {
		if judge(c[0], c[1]) == "" {
			t.Errorf("%s may import %s", c[0], c[1])
		}
	}
}
