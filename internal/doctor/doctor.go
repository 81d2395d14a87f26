// Package doctor examines all that is around a daemon, whether or not one runs: the shell of its agents,
// the configuration, the address, the data directory and its disk, the way to upstream, the clock and the
// quota. Each finding says what was found and what to do. It writes nothing upstream, and shows neither
// values nor tokens.
package doctor

import (
	"context"
	"io"
	"net/netip"
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
	// Sources make the configuration that is examined.
	Sources config.Sources
	// Reader decides how a finding says a time: see [term.Moment].
	Reader io.Writer
}

// checkLimit bounds each check; they run side by side.
const checkLimit = 15 * time.Second

// Examine returns what the checks find. If a daemon answers, they examine its data directory and its
// upstream, whatever the configuration says.
func Examine(ctx context.Context, o Options) []Finding {
	return runAll(ctx, newExamination(o).checks(), checkLimit)
}

// examination has what the checks go by. Its functions reach the outside world.
type examination struct {
	loaded *config.Loaded
	faults []*config.Error
	env    func(name string) string
	reader io.Writer
	// client asks the daemon. It is nil if the token cannot be read, and tokenError says why.
	client     *attach.Client
	tokenError error

	version string
	look    func(dir string) (Volume, error)
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	now     func() time.Time

	asked     sync.Once // guards status and statusErr
	status    *api.Status
	statusErr error
}

func newExamination(o Options) *examination {
	e := &examination{
		env:     func(name string) string { return term.ValueIn(o.Sources.Environ, name) },
		version: build.Version(), look: Look,
		resolve: lookUp, now: time.Now, reader: o.Reader,
	}
	e.loaded, e.faults = config.Check(o.Sources)
	if len(e.faults) == 0 {
		e.client, e.tokenError = attach.Connect(e.loaded, e.version)
	}
	return e
}

// checks returns all checks, in the order in which people read what they find.
func (e *examination) checks() []check {
	if faults := e.configuration(); Worst(faults) == Failed {
		return []check{{"configuration", func(context.Context) []Finding {
			return append(faults, none("the rest", "the other checks go by the configuration"))
		}}}
	}
	return []check{
		one("BOTWIRE_URL", e.agentURL),
		one("proxy", e.agentProxy),
		e.ofDaemon("callers", e.callers),
		{"configuration", func(context.Context) []Finding { return e.configuration() }},
		one("daemon", e.daemon),
		e.ofDaemon("status", summarized),
		e.ofDaemon("quota", e.quotas),
		one("token file", e.tokenFile),
		e.ofData("data directory", e.dataDir),
		e.ofData("disk", e.disk),
		{"upstream", e.upstream},
	}
}

// one returns a check with one finding.
func one(name string, find func(context.Context) Finding) check {
	return check{name, func(ctx context.Context) []Finding { return []Finding{find(ctx)} }}
}

// ofData returns a check of the data directory that the daemon uses, or would use.
func (e *examination) ofData(name string, judge func(*config.Config) Finding) check {
	return one(name, func(ctx context.Context) Finding {
		c, answers := e.examined(ctx)
		if answers {
			if why := outOfReach(c.DataDir); why != "" {
				return none(name, "%s", why)
			}
		}
		return judge(c)
	})
}

// ofDaemon returns a check of what the daemon's status says.
func (e *examination) ofDaemon(name string, judge func(*api.Status) Finding) check {
	return one(name, func(ctx context.Context) Finding {
		s, err := e.ask(ctx)
		if err != nil {
			return none(name, "no daemon answers this command")
		}
		return judge(s)
	})
}

// configuration has a finding for each mistake.
func (e *examination) configuration() (found []Finding) {
	const name = "configuration"
	validate, from := "botwired config validate", "no file"
	if e.loaded.File != "" {
		validate += " " + attach.ShellWord(e.loaded.File)
		from = e.loaded.File
	}
	for _, fault := range e.faults {
		found = append(found, fail(name, validate, "%s", fault))
	}
	if len(found) > 0 {
		return found
	}
	if err := e.loaded.RequireDataDir(); err != nil {
		return []Finding{fail(name, "export BOTWIRED_DATA_DIR=/var/lib/botwired", "%s", err)}
	}
	return []Finding{good(name, "it is valid (%s)", from)}
}
