package natskv

import (
	"context"
	"sort"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

type indexRow struct {
	Key string
	upstream.Version
}

type index struct {
	mu       sync.Mutex
	entries  map[journal.ID]upstream.Version
	loaded   bool
	onChange func(journal.ID, upstream.Version)
}

func newIndex(onChange func(journal.ID, upstream.Version)) *index {
	return &index{entries: make(map[journal.ID]upstream.Version), onChange: onChange}
}

func (x *index) apply(id journal.ID, v upstream.Version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if v.Revision > x.entries[id].Revision {
		x.entries[id] = v
		if x.onChange != nil {
			x.onChange(id, v)
		}
	}
}

func (x *index) get(id journal.ID) (upstream.Version, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[id], x.loaded
}

func (x *index) rows(namespace string, most int) (rows []indexRow, total int, loaded bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, v := range x.entries {
		if id.Namespace == namespace && v.Present() {
			rows = append(rows, indexRow{id.Key, v})
		}
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].WrittenAt > rows[j].WrittenAt })
	return rows[:min(most, len(rows))], len(rows), x.loaded
}

func (x *index) totals() (entries, namespaces, bytes int64, loaded bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	names := make(map[string]bool)
	for id, v := range x.entries {
		if v.Present() {
			entries, bytes = entries+1, bytes+int64(v.ListBytes)
			names[id.Namespace] = true
		}
	}
	return entries, int64(len(names)), bytes, x.loaded
}

type watch struct{ e *Engine }

func newWatch(e *Engine) *watch { return &watch{e} }

func (w *watch) run(ctx context.Context) { <-ctx.Done() }

func (w *watch) refuses() *upstream.Error { return nil }

func (w *watch) barrier(ctx context.Context) error {
	one, stream, failed := w.e.begin(ctx, "$JS.API.CONSUMER.")
	if failed != nil {
		return failed
	}
	defer one.end()
	info, err := stream.Info(one.ctx)
	if err != nil {
		return w.e.failure(one, err)
	}
	if info.State.Msgs > 0 {
		c, err := stream.OrderedConsumer(one.ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true})
		if err != nil {
			return w.e.failure(one, err)
		}
		messages, err := c.Messages()
		if err != nil {
			return w.e.failure(one, err)
		}
		defer messages.Stop()
		for {
			m, err := messages.Next(jetstream.NextContext(one.ctx))
			if err != nil {
				return w.e.failure(one, err)
			}
			meta, _ := m.Metadata()
			if id, ok := idOf(w.e.opts.Bucket, m.Subject()); ok {
				w.e.index.apply(id, decode(message{Revision: meta.Sequence.Stream, Header: nats.Header(m.Headers()), At: meta.Timestamp}))
			}
			if meta.NumPending == 0 {
				break
			}
		}
	}
	w.e.index.mu.Lock()
	defer w.e.index.mu.Unlock()
	w.e.index.loaded = true
	return nil
}

func (e *Engine) Report() Report                  { return Report{Warnings: e.bucket.warns()} }
func (e *Engine) NotBefore(id journal.ID) float64 { v, _ := e.index.get(id); return v.WrittenAt }
func (e *Engine) Accept() error                   { e.bucket.startOver(); return nil }
