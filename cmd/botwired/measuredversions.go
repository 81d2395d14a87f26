package main

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// measuredVersions measures the requests of an engine with revisions, as a get, a put or a delete.
type measuredVersions struct {
	measured *measured
	versions upstream.Versions
}

// Known implements [upstream.Versions]. It makes no request.
func (m *measuredVersions) Known(id journal.ID) (upstream.Version, bool) { return m.versions.Known(id) }

// Version implements [upstream.Versions].
func (m *measuredVersions) Version(ctx context.Context, id journal.ID) (v upstream.Version, err error) {
	err = m.measured.do(ctx, "get", id.Namespace, false, func(ctx context.Context) error {
		v, err = m.versions.Version(ctx, id)
		return err
	})
	return v, err
}

// Swap implements [upstream.Versions].
func (m *measuredVersions) Swap(ctx context.Context, p upstream.Proposal) (v upstream.Version, err error) {
	ctx, waited := m.measured.traced(ctx, p.ID)
	operation := "put"
	if p.Op == journal.Delete {
		operation = "delete"
	}
	err = m.measured.do(ctx, operation, p.Namespace, waited, func(ctx context.Context) error {
		v, err = m.versions.Swap(ctx, p)
		return err
	})
	return v, err
}

// outcomeOf names the end of a request for the metrics: its verdict, or that another version was
// there.
func outcomeOf(err error) string {
	if _, ok := errors.AsType[*upstream.Conflict](err); ok {
		return "conflict"
	}
	return verdictOf(err).String()
}
