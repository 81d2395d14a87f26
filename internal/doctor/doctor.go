// Package doctor examines everything around a daemon, whether or not one runs: the shell of its agents,
// the configuration, the address, the data directory and its disk, the way to upstream, the clock and
// the quota. Each finding says what was found and what to do. The package writes nothing upstream, and
// shows neither values nor tokens.
package doctor

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/build"
	"github.com/botwired/botwired/internal/cli/term"
)

// Options says what to examine.
type Options struct {
	// Sources are the sources of the configuration to examine.
	Sources config.Sources
	// Reader decides how findings format times: see [term.Moment].
	Reader io.Writer
}

// checkLimit limits each check; the checks run concurrently.
const checkLimit = 15 * time.Second

// Examine returns the findings of all checks. If a daemon answers, they examine its data directory and
// upstream instead of the configured ones.
func Examine(ctx context.Context, o Options) []Finding {
	return runAll(ctx, newExamination(o).checks(), checkLimit)
}

type examination struct {
	loaded *config.Loaded
	faults []*config.Error
	env    func(name string) string
	reader io.Writer
	// client is the daemon's client. It is nil if the token cannot be read, and tokenError says why.
	client     *attach.Client
	tokenError error

	version string
	look    func(dir string) (Volume, error)
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	now     func() time.Time

	asked     sync.Once // guards the fields below
	status    *api.Status
	statusErr error
	other     string // why the daemon may not be this account's; "" if it is
}

func newExamination(o Options) *examination {
	e := &examination{
		env:     func(name string) string { return term.ValueIn(o.Sources.Environ, name) },
		version: build.Version(), look: Look,
		resolve: lookUp, now: time.Now, reader: o.Reader,
	}
	e.loaded, e.faults = config.Check(o.Sources)
	if len(e.faults) == 0 {
		e.client, e.tokenError = attach.Connect(e.loaded, e.version, func(text string) { e.other = text })
	}
	return e
}

func (e *examination) checks() []check {
	if faults := e.configuration(); Worst(faults) == Failed {
		return []check{{"configuration", func(context.Context) []Finding {
			return append(faults, none("the rest", "the other checks go by the configuration"))
		}}}
	}
	return []check{
		one("BOTWIRE_URL", e.agentURL),
		e.ofDaemon("callers", e.callers),
		{"configuration", func(context.Context) []Finding { return e.configuration() }},
		one("daemon", e.daemon),
		e.ofDaemon("status", summarized),
		e.ofDaemon("dead letters", letters),
		e.ofDaemon("quota", e.quotas),
		one("token file", e.tokenFile),
		e.ofData("data directory", dataDir),
		e.ofData("disk", e.disk),
		{"upstream", e.upstream},
		one("key file", e.keyFile),
		{"sealed", e.sealed},
	}
}

func one(name string, find func(context.Context) Finding) check {
	return check{name, func(ctx context.Context) []Finding { return []Finding{find(ctx)} }}
}

// ofData returns a check of the data directory that the daemon uses or would use.
func (e *examination) ofData(name string, judge func(c *config.Config, answers bool) Finding) check {
	return one(name, func(ctx context.Context) Finding { return judge(e.examined(ctx)) })
}

// ofDaemon returns a check of the daemon's status.
func (e *examination) ofDaemon(name string, judge func(*api.Status) Finding) check {
	return one(name, func(ctx context.Context) Finding {
		s, err := e.ask(ctx)
		if err != nil {
			return none(name, "no daemon answers this command")
		}
		return judge(s)
	})
}

func (e *examination) configuration() (found []Finding) {
	const name = "configuration"
	validate, from := "botwired config validate", "no file"
	if e.loaded.File != "" {
		validate += " " + attach.ShellWord(e.loaded.File)
		from = e.loaded.File
	}
	for _, fault := range e.faults {
		remedy := validate
		if fault.Source.Layer == config.FromFlag { // which validate does not see
			remedy = "correct " + flagNames(fault)
		}
		found = append(found, fail(name, remedy, "%s", fault))
	}
	if len(found) > 0 {
		return found
	}
	if err := e.loaded.RequireDataDir(); err != nil {
		return []Finding{fail(name, "export BOTWIRED_DATA_DIR=/var/lib/botwired", "%s", err)}
	}
	return []Finding{good(name, "it is valid (%s)", from)}
}

// flagNames returns a flag with its short form.
func flagNames(fault *config.Error) string {
	for _, s := range config.Settings() {
		if s.Name == fault.Setting && s.Alias != "" {
			return "--" + s.Alias + " (--" + s.Flag() + ")"
		}
	}
	return fault.Source.Name
}

// Result is the outcome of a check.
type Result string

// The results, from best to worst.
const (
	NotApplicable Result = "not applicable"
	OK            Result = "ok"
	Warning       Result = "warning"
	Failed        Result = "failed"
)

// Finding is the result of one check.
type Finding struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"` // a command or a setting to copy; "" if there is nothing to do
}

type check struct {
	name string
	// run returns the findings. It should return when ctx ends, but may still run after runAll has
	// returned: nothing interrupts a call to a disk that hangs.
	run func(ctx context.Context) []Finding
}

// runAll runs the checks concurrently, each for at most limit, and returns their findings in the order
// of the checks.
func runAll(ctx context.Context, checks []check, limit time.Duration) []Finding {
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { found[i] = c.within(ctx, limit) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// within runs the check for at most limit. A check without a result by then has failed. If ctx ends,
// nobody reads the findings.
func (c *check) within(ctx context.Context, limit time.Duration) []Finding {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := make(chan []Finding, 1)
	go func() { found <- c.run(bounded) }()
	select {
	case out := <-found:
		return out
	case <-ctx.Done():
		return nil
	case <-time.After(limit + endGrace):
		return []Finding{fail(c.name, "", "no result within %s", limit)}
	}
}

// endGrace is how long a check may take to return its findings after its limit.
const endGrace = 500 * time.Millisecond

// Worst returns the worst result of the findings.
func Worst(findings []Finding) Result {
	worst := NotApplicable
	for _, f := range findings {
		if rank[f.Result] > rank[worst] {
			worst = f.Result
		}
	}
	return worst
}

var rank = map[Result]int{NotApplicable: 0, OK: 1, Warning: 2, Failed: 3}

func good(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: OK, Text: fmt.Sprintf(format, args...)}
}

func none(name, format string, args ...any) Finding {
	return Finding{Name: name, Result: NotApplicable, Text: fmt.Sprintf(format, args...)}
}

// warn returns a finding that a user should look at. The remedy is one line.
func warn(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Warning, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}

// fail returns a finding that keeps botwired from working. The remedy is one line.
func fail(name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Result: Failed, Text: fmt.Sprintf(format, args...), Remedy: strings.TrimSpace(remedy)}
}
