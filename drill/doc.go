// Package drill rehearses an outage: clients write, read back and delete through a daemon
// while its upstream fails in one way after another, and while the daemon itself is killed.
// The drill keeps the books. Every acknowledged write has a receipt, which says settled,
// superseded, pending or dead; every answer to a read is one that may be true; and at the end
// upstream holds what was acknowledged last.
//
// The package does not know how a daemon is started, nor how upstream is made to fail: see
// [Daemon] and [Upstream]. The clients' operations and their order depend on the seed only;
// how long each takes, and so what upstream has by then, is the machine's.
package drill

import (
	"context"
	"net/http"
	"time"
)

// Fault is a way in which upstream fails.
type Fault string

// The faults, and none.
const (
	Healthy   Fault = "healthy"
	TimesOut  Fault = "times out"
	Cuts      Fault = "cuts connections"
	Away      Fault = "away"
	Throttles Fault = "throttles"
	Lies      Fault = "lies"
)

// Answer is a daemon's.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Daemon is the one under drill.
type Daemon interface {
	// Ask makes one request, whose target is a path and a query. The error means that no
	// whole answer came. It may be called concurrently.
	Ask(ctx context.Context, method, target string, body []byte) (*Answer, error)
}

// Upstream is what the daemon stands in front of.
type Upstream interface {
	// Be makes upstream fail in a way, until the next call.
	Be(f Fault) error
	// Read asks upstream for an entry, past the daemon and all faults.
	Read(ctx context.Context, namespace, key string) (value string, found bool, err error)
}

// Stranger is an entry that upstream holds, and of which the daemon knows nothing. Each is in
// a namespace of its own.
type Stranger struct{ Namespace, Key, Value string }

// Step is a phase of the drill.
type Step struct {
	Fault Fault
	// Says is what happens to upstream, for people.
	Says string
	// Kills has the daemon killed amid the phase, and started again.
	Kills bool
}

// Options say which daemon to drill, and how.
type Options struct {
	Daemon   Daemon
	Upstream Upstream
	Steps    []Step
	// Restart kills the daemon, as a crash does, starts it again, and returns when it
	// listens. Only a step that kills needs it.
	Restart func(ctx context.Context) error
	// Strangers are read while upstream fails, one in each step.
	Strangers []Stranger
	// Namespace is the drill's own, and nobody else's.
	Namespace string
	// Prefix begins the name of each key.
	Prefix string
	// Clients is how many write at once, to Keys keys each. In a step each does Operations
	// operations, within about StepLasts.
	Clients, Keys, Operations int
	StepLasts                 time.Duration
	// SettleWithin bounds the wait for upstream to have everything, once all is well.
	SettleWithin time.Duration
	// CleanUp has the drill delete its entries, also if it ends early.
	CleanUp bool
	// Seed decides what the clients do.
	Seed uint64
	// Live is for the audit: the daemon is one in use.
	Live bool
	// Report is given what happens, as it happens, one event after another; nil drops it.
	Report func(Event)
}
