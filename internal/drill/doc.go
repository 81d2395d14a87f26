// Package drill rehearses an outage: clients write, read back and delete through a daemon while its
// upstream fails in one way after another, and while the daemon itself is killed. The drill records
// every operation and checks three things. Every acknowledged write has a receipt, which says settled,
// superseded, pending or dead. Every answer to a read can be true. At the end, upstream holds what was
// acknowledged last.
//
// The package does not know how a daemon is started, nor how upstream is made to fail: see [Rig]. The
// clients' operations and their order depend on the seed only. How long each takes, and so what
// upstream has by then, depends on the machine.
package drill

import (
	"context"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/faulty"
)

// Rig controls a daemon that nobody else uses, and its upstream.
type Rig interface {
	// Restart kills the daemon, as a crash does, starts it again, and returns when it listens.
	Restart(ctx context.Context) error
	// Be makes upstream fail in the given way until the next call.
	Be(m faulty.Mode) error
	// Plant gives upstream an entry that the daemon does not know.
	Plant(ctx context.Context, namespace, key, value string) error
	// Read asks upstream for an entry, past the daemon and all faults.
	Read(ctx context.Context, namespace, key string) (value string, found bool, err error)
}

// Options configures a drill. Its Rig is healthy, and the daemon runs.
type Options struct {
	Rig Rig
	// Daemon talks to the daemon, also after a restart. It may wait for an answer as long as the daemon
	// waits for a receipt: [FirstByte].
	Daemon *api.Client
	// Seed decides what the clients do.
	Seed uint64
	// Lasts is about how long all phases take together. A client pauses for about Gap between two
	// operations.
	Lasts, Gap time.Duration
	// SettleWithin bounds the wait for upstream to have everything, once all is well.
	SettleWithin time.Duration
	// Progress is called with what happens, one line for people at a time; nil drops the lines.
	Progress func(line string)
}

// FirstByte is how long the daemon may take until an answer begins.
const FirstByte = time.Minute

// The number of clients that write at once, the number of keys that each writes, and their namespace.
const (
	clients   = 3
	keys      = 3
	namespace = "drill"
)

// step is a phase of the drill.
type step struct {
	name string
	mode faulty.Mode
	says string // what happens to upstream, for people
	// kills says that the daemon is killed and started again during the phase.
	kills bool
}

// steps are the phases. Those in which upstream leaves requests unanswered come first: the daemon may
// settle such writes only once upstream.late_window is over.
var steps = []step{
	{name: "healthy", mode: faulty.Healthy, says: "answers"},
	{name: "times out", mode: faulty.Hangs, says: "never answers; carries half of the requests out, late"},
	{name: "cuts connections", mode: faulty.Cuts, says: "cuts connections, half of the requests carried out"},
	{name: "away", mode: faulty.Refuses, says: "refuses connections"},
	{name: "throttles", mode: faulty.Throttles, says: "429 with Retry-After: 1"},
	{name: "lies", mode: faulty.Lies, says: "a portal's 200, redirects, answers about another entry"},
	{name: "killed", mode: faulty.Refuses, kills: true, says: "refuses connections; the daemon is killed amid writes (SIGKILL)"},
	{name: "healthy again", mode: faulty.Healthy, says: "is back"},
}
