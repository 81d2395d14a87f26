package natskv

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Options configures an engine.
type Options struct {
	// Servers are NATS URLs, without credentials in them.
	Servers []string
	// Bucket is the name of the key-value bucket.
	Bucket string
	// Replicas and History are those of a bucket that Open makes: on how many servers it lies, and
	// how many versions of an entry it keeps. Create lets Open make it if there is none.
	Replicas, History int
	Create            bool
	// TLS, if not nil, is demanded of every server.
	TLS *tls.Config
	// Credentials is the path of a credentials file; User and Password are the other way to
	// say who this is. All may be empty.
	Credentials, User, Password string
	// Timeout bounds one request.
	Timeout time.Duration
	// Host names this host's writes: see [upstream.Writer].
	Host string
	// Name is what the servers call this client.
	Name string
	// TombstonesFor is how long the tombstone of a delete is kept; 0 is for ever.
	TombstonesFor time.Duration
	// Marks remembers what the bucket was across restarts; nil: nothing does.
	Marks Marks
	// OnChange, if not nil, is called for each version that becomes known, own or another host's, in
	// the order of an entry's revisions, once the index shows it. It must be quick.
	OnChange func(id journal.ID, now upstream.Version)
	// OnSound, if not nil, is called when the watch becomes sound and when it no longer is.
	OnSound func(sound bool, why string)
	// Logger must not be nil.
	Logger *slog.Logger
}

// Mark is what a bucket was when it was last seen.
type Mark struct {
	Created  time.Time `json:"created"`  // when its stream was made
	Revision uint64    `json:"revision"` // the highest one that was seen
	Latest   float64   `json:"latest"`   // Unix seconds: the latest time of a write that was seen
}

// Marks keeps a mark across restarts. Load returns the zero Mark if there is none. Save is durable
// when it returns.
type Marks interface {
	Load() (Mark, error)
	Save(Mark) error
}

// Report describes the engine for the status and for people.
type Report struct {
	Bucket   string
	Server   string // that the connection leads to; "" if there is none
	Revision uint64 // the last one that the index has
	Entries  int    // in the index
	Memory   int64  // about the bytes that the index takes
	Sound    bool
	Since    time.Time // since when it is, or is not
	Why      string    // why it is not
	Lost     string    // why the bucket is not believed; "" if it is: see Accept
}

// Engine keeps the memory in a bucket. Its methods may be called concurrently.
type Engine struct {
	opts Options
	conn *nats.Conn
}

// Open returns an engine. The servers need not be there: its requests fail as Unsent until they are.
// Open fails only where waiting would not help.
func Open(ctx context.Context, opts Options) (*Engine, error) { return &Engine{opts: opts}, nil }

// Close ends the connection. Nothing may be called after it.
func (e *Engine) Close() {}

// Report describes the engine as it is now.
func (e *Engine) Report() Report { return Report{} }

// NotBefore returns a time, in Unix seconds, that the time of a new write to an entry has to be
// later than: that of each version of the entry that is known, and of any write that was seen.
func (e *Engine) NotBefore(id journal.ID) float64 { return 0 }

// Accept has the engine go on with the bucket that is there, after Report has said Lost.
func (e *Engine) Accept() error { return nil }

// Revisions returns the versions of an entry that the bucket keeps, with values, the newest first.
func (e *Engine) Revisions(ctx context.Context, id journal.ID) ([]upstream.Version, error) {
	return nil, nil
}
