package natskv

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Options configures an engine. Open does not check them: package config does.
type Options struct {
	// Servers are NATS URLs, without credentials in them.
	Servers []string
	// Bucket is the name of the key-value bucket.
	Bucket string
	// Replicas and History say on how many servers a bucket lies that the engine makes, and how many
	// versions of an entry it keeps. Create lets it make the bucket if there is none.
	Replicas, History int
	Create            bool
	// TLS, if not nil, is demanded of every server; TLSFirst, before the server says anything.
	TLS      *tls.Config
	TLSFirst bool
	// Access says who this is.
	Access Access
	// Timeout bounds one request.
	Timeout time.Duration
	// Host names this host's writes: see [upstream.Writer].
	Host string
	// Name names this client to the servers.
	Name string
	// TombstonesFor is how long the tombstone of a delete is kept; 0 is for ever.
	TombstonesFor time.Duration
	// Marks remembers the bucket across restarts; nil: nothing does.
	Marks Marks
	// OnChange, if not nil, is called for each version that becomes known, own or another host's, in
	// the order of an entry's revisions. A reader of the index waits until it returns, and sees the
	// version then. So it must be quick, and must not call the engine.
	OnChange func(id journal.ID, now upstream.Version)
	// Logger must not be nil.
	Logger *slog.Logger
}

// Access says who a client is: the first of User, Credentials, NKey and Token that is not empty
// counts. All may be empty.
type Access struct {
	User, Password string
	Credentials    string // the path of a file with a user's JWT and its key
	NKey           string // the path of a file with a user's key
	Token          string
	// InboxPrefix begins the subjects of answers; "" is NATS' own.
	InboxPrefix string
}

// Mark identifies a bucket as it was last seen.
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
	CaughtUp bool
	Since    time.Time // since when it is, or is not
	Why      string    // why it is not
	Lost     string    // why the bucket is not believed; "" if it is: see Accept
	// Warnings say how the bucket's settings endanger what it holds, and what to change.
	Warnings []string
}

// Engine keeps the memory in a bucket. Its methods may be called concurrently.
type Engine struct {
	opts   Options
	link   *connection
	bucket *bucket
	index  *index
	watch  *watch

	stop       context.CancelFunc // ends background
	background sync.WaitGroup     // the watch
}

var _ upstream.Engine = (*Engine)(nil)

// Open returns an engine. The servers need not be there: its requests fail as Unsent until they are.
// Open fails only where waiting would not help: a file of Access or the mark cannot be read. ctx bounds
// Open alone.
func Open(ctx context.Context, opts Options) (*Engine, error) {
	background, stop := context.WithCancel(context.Background())
	e := &Engine{opts: opts, index: newIndex(opts.OnChange), stop: stop}
	e.bucket = &bucket{e: e}
	var err error
	if e.watch, err = newWatch(e); err == nil {
		e.link, err = connect(ctx, background, opts, e.watch.stir, e.watch.disconnected)
	}
	if err != nil {
		stop()
		return nil, err
	}
	e.background.Go(func() { e.watch.run(background) })
	return e, nil
}

// Close ends the connection and all that the engine does by itself. Requests that are under way
// fail. Nothing may be called after it.
func (e *Engine) Close() {
	e.stop()
	e.background.Wait()
	e.link.close()
}
