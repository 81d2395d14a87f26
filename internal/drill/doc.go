// Package drill rehearses an outage. Clients write, read back and delete through a daemon while its
// upstream fails in one way after another, and while the daemon itself is killed. The drill records
// every operation and checks three things. Every acknowledged write has a receipt: settled, superseded,
// pending or dead. Every answer to a read is possible. At the end, upstream holds the last acknowledged
// writes.
//
// The package does not know how a daemon is started or how upstream is made to fail: see [Rig]. The
// clients' operations and their order depend only on the seed. How long each takes, and so what
// upstream has by then, depends on the machine.
package drill

import (
	"context"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/faulty"
)

// Rig controls a daemon that nobody else uses, and its upstream.
type Rig interface {
	// Restart kills the daemon like a crash, starts it again, and returns when it listens.
	Restart(ctx context.Context) error
	// Be makes upstream fail in the given way until the next call.
	Be(m faulty.Mode) error
	// Plant stores an entry upstream that the daemon does not know.
	Plant(ctx context.Context, namespace, key, value string) error
	// Read reads an entry upstream, without the daemon and without faults.
	Read(ctx context.Context, namespace, key string) (value string, found bool, err error)
}

// Options configures a drill. At the start, Rig is healthy and the daemon runs.
type Options struct {
	Rig Rig
	// Daemon reaches the daemon, also after a restart.
	Daemon http.RoundTripper
	// Seed decides what the clients do.
	Seed uint64
	// Lasts is about how long all phases take together. Gap is about how long a client pauses between
	// operations.
	Lasts, Gap time.Duration
	// Progress is called with one line for people per event.
	Progress func(line string)
}

// The number of concurrent clients, the number of keys of each, and their namespace.
const (
	clients   = 3
	keys      = 3
	namespace = "drill"
)

// steps are the phases. The phases with unanswered requests come first: the daemon may settle such
// writes only after upstream.late_window.
var steps = []struct {
	name string
	mode faulty.Mode
	says string // what happens to upstream, for people
	// kills means that the daemon is killed and restarted during the phase.
	kills bool
}{
	{name: "healthy", mode: faulty.Healthy, says: "answers"},
	{name: "times out", mode: faulty.Hangs, says: "never answers; carries half of the requests out, late"},
	{name: "cuts connections", mode: faulty.Cuts, says: "cuts connections, half of the requests carried out"},
	{name: "away", mode: faulty.Refuses, says: "refuses connections"},
	{name: "throttles", mode: faulty.Throttles, says: "429 with Retry-After: 1"},
	{name: "lies", mode: faulty.Lies, says: "a portal's 200, redirects, answers about another entry"},
	{name: "killed", mode: faulty.Refuses, kills: true, says: "refuses connections; the daemon is killed amid writes (SIGKILL)"},
	{name: "healthy again", mode: faulty.Healthy, says: "is back"},
}
