package natskv

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Service is BotWire's memory service over an engine: any number of them may stand before one
// bucket. Writes to an entry have one order for all of them, and each sees what the servers had
// confirmed when it was called, but for a read through a leader that does not know yet that it is
// deposed. Its methods may be called concurrently. While the servers cannot be asked, errors
// have a method Unavailable that returns true.
type Service struct{ e *Engine }

// NewService returns a service over an engine, which the service's Close closes.
func NewService(e *Engine) *Service { return &Service{e: e} }

// unavailableError is a failure that the same request may not meet later.
type unavailableError struct{ error }

func (u unavailableError) Unwrap() error { return u.error }

// Unavailable reports that the servers could not be asked, or did not answer.
func (u unavailableError) Unavailable() bool { return true }

// unavailable marks the error of a request as one that need not last.
func unavailable(err error) error {
	var failed *upstream.Error
	if errors.As(err, &failed) && failed.Verdict != upstream.Permanent {
		return unavailableError{err}
	}
	return err
}

// insist makes a request again that cannot have arrived, for as long as a request may take: a change
// of leaders is over in seconds.
func (s *Service) insist(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.e.opts.Timeout)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := request(ctx)
		var failed *upstream.Error
		if !errors.As(err, &failed) || failed.Verdict != upstream.Unsent || tasks.Sleep(ctx, rand.N(wait)) != nil {
			return unavailable(err)
		}
	}
}

// Get returns an entry. found is false if there is none.
func (s *Service) Get(ctx context.Context, namespace, key string) (entry wire.Entry, found bool, err error) {
	var v upstream.Version
	err = s.insist(ctx, func(ctx context.Context) (err error) {
		v, err = s.e.Get(ctx, journal.ID{Namespace: namespace, Key: key})
		return err
	})
	if err != nil || !v.Present() {
		return wire.Entry{}, false, err
	}
	return wire.Entry{Namespace: namespace, Key: key, Value: v.Value, CreatedAt: v.CreatedAt, UpdatedAt: v.WrittenAt}, true, nil
}

// Set stores a value, and returns once the servers have confirmed it. After an error the value may
// have been stored.
func (s *Service) Set(ctx context.Context, namespace, key, value string) error {
	p := upstream.Proposal{ID: journal.ID{Namespace: namespace, Key: key}, Op: journal.Put, Value: value, ListBytes: wire.ListBytes(value)}
	return s.insist(ctx, func(ctx context.Context) error {
		_, err := s.e.change(ctx, p)
		return err
	})
}

// Remove deletes an entry, and returns whether there was one. After an error it may be deleted.
func (s *Service) Remove(ctx context.Context, namespace, key string) (existed bool, err error) {
	p := upstream.Proposal{ID: journal.ID{Namespace: namespace, Key: key}, Op: journal.Delete}
	err = s.insist(ctx, func(ctx context.Context) error {
		before, err := s.e.change(ctx, p)
		existed = before.Present()
		return err
	})
	return existed && err == nil, err
}

// List returns at most limit items of a namespace, the newest first.
func (s *Service) List(ctx context.Context, namespace string, limit int) (wire.Listing, error) {
	l := wire.Listing{Namespace: namespace}
	err := s.insist(ctx, func(ctx context.Context) error {
		rows, _, err := s.e.rows(ctx, namespace, limit)
		l.Items = make([]wire.Item, 0, len(rows))
		for i := range rows {
			l.Items = append(l.Items, wire.Item{Key: rows[i].Key, Bytes: rows[i].ListBytes, UpdatedAt: rows[i].WrittenAt})
		}
		return err
	})
	return l, err
}

// Stats returns how many entries and namespaces there are, and the entries' sizes as listings show
// them, summed up.
func (s *Service) Stats(ctx context.Context) (entries, namespaces, bytes int64, err error) {
	err = s.insist(ctx, func(ctx context.Context) error {
		if err := s.e.catchUp(ctx); err != nil {
			return err
		}
		var loaded bool
		if entries, namespaces, bytes, loaded = s.e.index.totals(); !loaded {
			return notLoaded()
		}
		return nil
	})
	return entries, namespaces, bytes, err
}

// Close closes the engine. Nothing may be called after it.
func (s *Service) Close() error {
	s.e.Close()
	return nil
}
