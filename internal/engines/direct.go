package engines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/words"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/botwire"
	"github.com/botwired/botwired/upstream/natskv"
)

// Direct asks upstream itself, beside the daemon: for the values of a plain namespace, and for what a sealed
// one really holds. Its requests count for no quota of the daemon's. A throttled request waits and is
// repeated; its other errors say why upstream did not answer.
type Direct struct {
	engine upstream.Engine
	// Close ends the connections.
	Close func()
}

// OpenDirect opens the engine of a configuration beside a daemon that may be running. It changes nothing in the data
// directory.
func OpenDirect(ctx context.Context, c *config.Config) (*Direct, error) {
	//exhaustive:enforce
	switch c.Upstream.Kind() {
	case config.KindEmbedded:
	case config.KindNATS:
		opts, err := Cluster(c, "", clusterTimeout, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, words.Unusable(err)
		}
		opts.Create = false
		engine, err := natskv.Open(ctx, opts)
		if err != nil {
			return nil, words.Unusable(err)
		}
		return &Direct{engine, engine.Close}, nil
	case config.KindBotWire:
		opts := BotWire(c)
		var err error
		if opts.URL, err = url.Parse(c.Upstream.URL); err != nil {
			return nil, err
		}
		client := botwire.NewClient(opts)
		return &Direct{client, client.Close}, nil
	}
	return nil, errors.New("upstream.url = embedded: the memory is inside the daemon, and nobody else can ask for it")
}

const (
	// mostRepeats is how often a request is repeated, each time after leastPause at least.
	mostRepeats = 5
	leastPause  = time.Second
)

// patiently repeats a request that upstream throttles or that has not reached it, and a read that has failed.
func patiently[T any](ctx context.Context, reads bool, ask func() (T, error)) (T, error) {
	for repeat := 0; ; repeat++ {
		answer, err := ask()
		failed, ok := errors.AsType[*upstream.Error](err)
		again := ok && (failed.Verdict == upstream.Throttled || failed.Verdict == upstream.Unsent || reads && failed.Verdict.BlamesUpstream()) // guard 23.34
		if !again || repeat == mostRepeats {
			return answer, err
		}
		if err := tasks.Sleep(ctx, max(leastPause, failed.RetryAfter)); err != nil {
			return answer, err
		}
	}
}

// List lists a namespace as it is upstream, the newest entry first. complete is false if there may be more keys.
func (d *Direct) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	rows, err = patiently(ctx, true, func() (list []journal.Row, err error) {
		list, complete, err = d.engine.List(ctx, namespace)
		return list, err
	})
	return rows, complete, err
}

// Get asks for an entry as it is upstream.
func (d *Direct) Get(ctx context.Context, namespace, key string) (upstream.Version, error) {
	return patiently(ctx, true, func() (upstream.Version, error) { return d.engine.Get(ctx, journal.ID{Namespace: namespace, Key: key}) })
}

// Delete deletes a version of an entry. In front of NATS it fails if another version has replaced it. A delete that
// upstream may have carried out is not repeated: it would take what others have written since.
func (d *Direct) Delete(ctx context.Context, namespace, key string, over upstream.Version) error {
	_, err := patiently(ctx, false, func() (upstream.Version, error) {
		return d.engine.Swap(ctx, upstream.Proposal{
			ID: journal.ID{Namespace: namespace, Key: key}, Op: journal.Delete, WrittenAt: upstream.Unix(time.Now()), Over: over,
		})
	})
	return err
}

// Found is an entry of a sealed namespace, as it is upstream.
type Found struct {
	Value seal.Value
	KeyID string // of the key that opens it
	Err   error  // why it does not open
}

// Find asks for an entry of a sealed namespace. It returns nil if upstream holds none.
func (d *Direct) Find(ctx context.Context, n *seal.Namespace, key string) (*Found, error) {
	name, ok := n.Key(key)
	if !ok {
		return nil, nil
	}
	stored, err := d.Get(ctx, n.Name(), name)
	if err != nil || !stored.Present() {
		return nil, err
	}
	f := &Found{}
	f.Value, f.KeyID, f.Err = n.Open(key, stored.Value)
	return f, nil
}

// Sealed is what upstream holds of a sealed namespace, and of the plain one of the same name.
type Sealed struct {
	Namespace string              `json:"namespace"`
	Hidden    string              `json:"hidden"` // its name upstream
	Entries   int                 `json:"entries"`
	Opened    map[string][]string `json:"opened"`     // entries, by the ID of the key that opens them
	NotOpened map[string][]string `json:"not_opened"` // entries, by the reason
	Complete  bool                `json:"complete"`   // upstream lists no more entries
	Plain     int                 `json:"plain"`      // entries of the plain namespace
	PlainAt   float64             `json:"-"`          // when the newest of them was written, in Unix seconds
}

const noName = "no key opens its name: somebody else has written it, or with another name key"

// Examine opens so many entries of a sealed namespace at most, the newest first.
func (d *Direct) Examine(ctx context.Context, keys *seal.Keys, namespace string, most int) (x Sealed, err error) {
	n := keys.For(namespace)
	x = Sealed{Namespace: namespace, Hidden: n.Name(), Opened: map[string][]string{}, NotOpened: map[string][]string{}}
	rows, complete, err := d.List(ctx, n.Name())
	if x.Complete = complete; err != nil {
		return x, err
	}
	for _, row := range rows[:min(len(rows), most)] {
		key, ok := n.OpenKey(row.Key)
		if !ok {
			x.NotOpened[noName] = append(x.NotOpened[noName], row.Key)
			continue
		}
		f, err := d.Find(ctx, n, key)
		switch {
		case err != nil:
			return x, err
		case f == nil: // it was deleted
		case f.Err != nil:
			x.NotOpened[f.Err.Error()] = append(x.NotOpened[f.Err.Error()], key)
		default:
			x.Entries++
			x.Opened[f.KeyID] = append(x.Opened[f.KeyID], key)
		}
	}
	plain, _, err := d.List(ctx, namespace)
	for _, row := range plain {
		x.PlainAt = max(x.PlainAt, row.UpdatedAt)
	}
	x.Plain = len(plain)
	return x, err
}

// Faults says what does not open, and why.
func (x *Sealed) Faults() (faults []string) {
	for _, why := range slices.Sorted(maps.Keys(x.NotOpened)) {
		keys := x.NotOpened[why]
		faults = append(faults, fmt.Sprintf("%s: %s, such as %s: %s", x.Namespace, words.Plural(len(keys), "entry"), keys[0], why))
	}
	return faults
}

// PlainTwin says how much the plain namespace holds.
func (x *Sealed) PlainTwin() string {
	return fmt.Sprintf("%s: %s in the plain namespace, for everybody to read", x.Namespace, words.Plural(x.Plain, "entry"))
}
