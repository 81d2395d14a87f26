package drill

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/numbered"
)

// drill is a drill in progress.
type drill struct {
	opts    Options
	daemon  *api.Client
	entries []*entry
	clients []*client
	phase   *Phase // changes only while no client is at work

	operations atomic.Int64  // in the current phase
	killAt     int64         // the operation after which the daemon is killed; 0 means never
	killed     atomic.Bool   // in the current phase
	restarting chan struct{} // full while the daemon is killed and started again

	mu    sync.Mutex // guards the audit, the phase's counts and the entries' acks
	audit Audit
}

// entry is an entry of the drill, with its acknowledged writes.
type entry struct {
	*numbered.Entry
	acks []ack
}

func newEntry(namespace, key string) *entry { return &entry{Entry: numbered.NewEntry(namespace, key)} }

// ack is an acknowledged write.
type ack struct {
	seq    uint64
	number int // the number of the entry's write
	op     string
	phase  string
}

// count adds one to a number of the audit or of the phase.
func (d *drill) count(n *int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*n++
}

// found records a finding about an entry.
func (d *drill) found(contract int, e *entry, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.audit.Findings = append(d.audit.Findings, Finding{contract, d.phase.Name, e.Namespace, e.Key, fmt.Sprintf(format, args...)})
}
