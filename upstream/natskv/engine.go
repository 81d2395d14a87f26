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
	// Servers are NATS URLs without credentials.
	Servers []string
	// Bucket is the name of the key-value bucket.
	Bucket string
	// Replicas and History are settings of a bucket that the engine creates: how many servers hold the
	// bucket, and how many versions of an entry it keeps. With Create, the engine creates the bucket if
	// it has never existed.
	Replicas, History int
	Create            bool
	// TLS, if not nil, is required of every server. If it is nil, the engine connects only to servers on
	// loopback. With TLSFirst, the handshake comes before the server's first message.
	TLS      *tls.Config
	TLSFirst bool
	// Access identifies this client. Renew, if not nil, returns its User, Password and Token of now: the
	// engine calls it at each attempt to connect. After an error they stay as they were.
	Access Access
	Renew  func() (Access, error)
	// Timeout bounds one request.
	Timeout time.Duration
	// Host names this host in its writes: see [upstream.Writer]. Its versions, and those under its earlier names,
	// are given back under that name.
	Host    string
	Earlier upstream.Earlier
	// Name names this client to the servers.
	Name string
	// TombstonesFor is how long the tombstone of a delete is kept; 0: forever.
	TombstonesFor time.Duration
	// Marks stores the bucket's mark across restarts.
	Marks Marks
	// Logger must not be nil.
	Logger *slog.Logger
}

// Access identifies a client by the first of User, Credentials, NKey and Token that is not empty. All
// may be empty.
type Access struct {
	User, Password string
	Credentials    string // path of a file with a user's JWT and key
	NKey           string // path of a file with a user's key
	Token          string
	// InboxPrefix is the prefix of the subjects of answers; "": NATS' own.
	InboxPrefix string
}

// Mark identifies a bucket as it was last seen.
type Mark struct {
	Created  time.Time `json:"created"`     // when its stream was created
	Revision uint64    `json:"revision"`    // the highest revision seen
	At       time.Time `json:"at,omitzero"` // when the stream received that message; zero if unknown
	// Entry and Written are that message's entry and the time of its version, in Unix seconds. Entry is zero
	// if that is unknown, or if the stream removes the message by itself.
	Entry   journal.ID `json:"entry,omitzero"`
	Written float64    `json:"written,omitempty"`
	Latest  float64    `json:"latest"` // Unix seconds: the latest write time seen
	// WentBack says that the bucket has shown an earlier version of an entry than before.
	WentBack bool `json:"went_back,omitempty"`
	// Accepted counts how often a person has accepted the bucket as it is. A message seen before the last time is no
	// evidence of a loss.
	Accepted int `json:"accepted,omitempty"`
}

// With returns the mark with the message of a later one of the same bucket, or else unchanged.
func (m Mark) With(later Mark) Mark {
	if !m.Created.IsZero() && later.Created.Equal(m.Created) && later.Accepted == m.Accepted {
		m.advance(&later)
	}
	return m
}

// advance takes the message of another mark if it is later, or the same one and better known.
func (m *Mark) advance(to *Mark) {
	if to.Revision > m.Revision || to.Revision == m.Revision && m.Entry == (journal.ID{}) && !to.At.IsZero() {
		m.Revision, m.At, m.Entry, m.Written = to.Revision, to.At, to.Entry, to.Written
	}
}

// Marks stores a mark across restarts. Load returns the zero Mark if there is none. Save is durable
// when it returns.
type Marks interface {
	Load() (Mark, error)
	Save(Mark) error
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

// Backend returns the engine with all that it can do.
func (e *Engine) Backend() upstream.Backend {
	return upstream.Backend{Engine: e, Host: e.opts.Host, View: e, Revisions: e.Revisions, Purge: e.Purge}
}

// Open returns an engine. The servers need not be reachable: until they are, requests fail as Unsent.
// Open fails only if waiting would not help: the options cannot be used, or a file of Access or the
// mark cannot be read. ctx applies only to Open.
func Open(ctx context.Context, opts Options) (*Engine, error) {
	background, stop := context.WithCancel(context.Background())
	e := &Engine{opts: opts, index: newIndex(), stop: stop}
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

// Seen returns the mark with the last message that an answer or a change has shown. A caller who stores it with
// each confirmed state, and passes it to [Mark.With] at the next start, finds out if the bucket has lost that
// state. Seen may be called concurrently.
func (e *Engine) Seen() Mark { return e.watch.keeper.top() }

// Close ends the connection and the engine's background work. Requests in flight fail. Call no method
// after Close.
func (e *Engine) Close() {
	e.stop()
	e.background.Wait()
	e.link.close()
}
