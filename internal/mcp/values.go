package mcp

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/botwired/botwired/api"
)

// valuesAtATime is how many values are read in parallel.
const valuesAtATime = 8

type valued struct {
	key, value string
	updatedAt  float64
	gone       bool  // the entry no longer exists
	err        error // why the value could not be read
}

// values reads the values of entries, some in parallel, and yields them in order.
func (d *daemon) values(ctx context.Context, namespace string, of []api.Entry) iter.Seq[valued] {
	return func(yield func(valued) bool) {
		for part := range slices.Chunk(of, valuesAtATime) {
			found := make([]valued, len(part))
			var reading sync.WaitGroup
			for i := range part {
				reading.Go(func() { found[i] = d.value(ctx, namespace, &part[i]) })
			}
			reading.Wait()
			for _, one := range found {
				if !yield(one) {
					return
				}
			}
		}
	}
}

func isDeleted(e *api.Entry) bool { return e.Op == "delete" }

func (d *daemon) value(ctx context.Context, namespace string, of *api.Entry) valued {
	v := valued{key: of.Key, updatedAt: of.UpdatedAt}
	if isDeleted(of) {
		v.gone = true
		return v
	}
	entry, _, found, err := d.read(ctx, namespace, of.Key)
	v.err, v.gone = err, err == nil && !found
	if found {
		v.value, v.updatedAt = entry.Value, entry.UpdatedAt
	}
	return v
}
