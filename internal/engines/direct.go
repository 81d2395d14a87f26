package engines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/seal"
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
	end    func()
}

// OpenDirect opens the engine of a configuration without its data directory.
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

// Close ends the connections.
func (d *Direct) Close() { d.end() }

const (
	// mostRepeats is how often a request is repeated that upstream throttles or that finds no connection yet,
	// each time after leastPause at least.
	mostRepeats = 5
	leastPause  = time.Second
)

// patiently repeats a request that upstream throttles.
func patiently(ctx context.Context, ask func() error) error {
	for repeat := 0; ; repeat++ {
		err := ask()
		failed, ok := errors.AsType[*upstream.Error](err)
		if !ok || failed.Verdict == upstream.Paused || failed.Verdict == upstream.Permanent || repeat == mostRepeats {
			return err
		}
		select {
		case <-time.After(max(leastPause, failed.RetryAfter)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// List lists a namespace as it is upstream. complete is false if there may be more keys.
func (d *Direct) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	err = patiently(ctx, func() error {
		rows, complete, err = d.engine.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

// Get asks for an entry as it is upstream.
func (d *Direct) Get(ctx context.Context, namespace, key string) (v upstream.Version, err error) {
	err = patiently(ctx, func() error {
		v, err = d.engine.Get(ctx, journal.ID{Namespace: namespace, Key: key})
		return err
	})
	return v, err
}

// Delete deletes a version of an entry. In front of NATS it fails if another version has replaced it.
func (d *Direct) Delete(ctx context.Context, namespace, key string, over upstream.Version) error {
	return patiently(ctx, func() error {
		_, err := d.engine.Swap(ctx, upstream.Proposal{
			ID: journal.ID{Namespace: namespace, Key: key}, Op: journal.Delete, WrittenAt: upstream.Unix(time.Now()), Over: over,
		})
		return err
	})
}

// Sealed is what upstream holds of a sealed namespace.
type Sealed struct {
	Entries  int            // authentic ones
	ByKey    map[string]int // the same, by the ID of the key that opens them
	Unknown  map[string]int // entries by the ID of a key that is not in the key file
	Names    int            // names that do not open
	Refused  []string       // entries that do not open: a key, and why
	Complete bool           // false: upstream lists no more, and there may be more
}

// SealedKeys lists the keys of a sealed namespace, and counts the names that do not open.
func (d *Direct) SealedKeys(ctx context.Context, n *seal.Namespace) (keys []string, closed int, complete bool, err error) {
	rows, complete, err := d.List(ctx, n.Name())
	for _, row := range rows {
		if key, ok := n.OpenKey(row.Key); ok {
			keys = append(keys, key)
		} else {
			closed++
		}
	}
	return keys, closed, complete, err
}

// SealedValue returns an entry of a sealed namespace with the ID of its key; found is false if there is
// none. An error that is no *[upstream.Error] says why the entry does not open.
func (d *Direct) SealedValue(ctx context.Context, n *seal.Namespace, key string) (v seal.Value, keyID string, found bool, err error) {
	name, ok := n.Key(key)
	if !ok {
		return v, "", false, nil
	}
	stored, err := d.Get(ctx, n.Name(), name)
	if err != nil || !stored.Present() {
		return v, "", false, err
	}
	v, keyID, err = n.Open(key, stored.Value)
	return v, keyID, true, err
}

// Examine opens every entry of a sealed namespace. each, if not nil, is called for each one that opens.
func (d *Direct) Examine(ctx context.Context, n *seal.Namespace, each func(key, keyID string) error) (s Sealed, err error) {
	keys, closed, complete, err := d.SealedKeys(ctx, n)
	if err != nil {
		return s, err
	}
	s = Sealed{ByKey: map[string]int{}, Unknown: map[string]int{}, Names: closed, Complete: complete}
	for _, key := range keys {
		_, keyID, found, err := d.SealedValue(ctx, n, key)
		unknown, other := errors.AsType[*seal.UnknownKey](err)
		failed, unasked := errors.AsType[*upstream.Error](err)
		switch {
		case unasked:
			return s, fmt.Errorf("after %d of %d entries: %w", s.Entries, len(keys), failed)
		case other:
			s.Unknown[unknown.ID]++
		case ctx.Err() != nil:
			return s, ctx.Err()
		case err != nil:
			s.Refused = append(s.Refused, key+": "+err.Error())
		case found:
			s.Entries++
			s.ByKey[keyID]++
			if each != nil {
				err = each(key, keyID)
			}
			if err != nil {
				return s, err
			}
		}
	}
	return s, nil
}
