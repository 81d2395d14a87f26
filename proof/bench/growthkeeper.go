package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// The requests that only bench makes of a keeper.
const (
	keeperHolds = "/holds" // it holds a filling, too
	keeperAway  = "/away"  // it answers every request with 503
	keeperBack  = "/back"  // no more
)

// keeper is an upstream that takes every write at once and keeps it in memory, and answers reads and
// lists as BotWire does: nothing that a daemon hears from it is a reason to ask again. A filling is not in its
// memory: its values follow from their numbers.
type keeper struct {
	away   atomic.Bool
	values values

	mu       sync.Mutex // guards the fields below
	entries  map[string]map[string]wire.Entry
	filled   filling
	filledAt float64
}

func newKeeper() *keeper {
	return &keeper{values: newValues(), entries: make(map[string]map[string]wire.Entry)}
}

// keeper starts one at an address.
func (l *lab) keeper(address string) command {
	return command{
		program: l.self,
		args:    func(address, _ string) []string { return []string{"keeper", address, "0s"} },
		probe:   httpProbe("/health"),
		address: address,
	}
}

// ServeHTTP implements [http.Handler].
func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, refusal := k.answer(r)
	if refusal != nil {
		refusal.Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // if this fails the caller is gone
}

func (k *keeper) answer(r *http.Request) (body []byte, refusal *wire.Refusal) {
	switch r.URL.Path {
	case keeperAway, keeperBack:
		k.away.Store(r.URL.Path == keeperAway)
		return []byte(`{}`), nil
	case keeperHolds:
		return []byte(`{}`), k.hold(r)
	}
	if k.away.Load() {
		return nil, wire.Detail(http.StatusServiceUnavailable, "away")
	}
	route := wire.ParseRoute(r.URL.Path)
	switch {
	case route.Kind == wire.EntryRoute && r.Method == http.MethodPut:
		return k.put(r, route)
	case route.Kind == wire.EntryRoute:
		return k.get(route)
	case route.Kind == wire.ListRoute:
		return k.list(r, route.Namespace)
	}
	return []byte(`{"status":"ok"}`), nil
}

func (k *keeper) hold(r *http.Request) *wire.Refusal {
	q := r.URL.Query()
	from, noFrom := strconv.Atoi(q.Get("from"))
	to, noTo := strconv.Atoi(q.Get("to"))
	namespaces, noNamespaces := strconv.Atoi(q.Get("namespaces"))
	if noFrom != nil || noTo != nil || noNamespaces != nil {
		return wire.Detail(http.StatusBadRequest, "expected three numbers")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.filled.to != 0 { // fillings follow each other
		from = k.filled.from
	}
	k.filled, k.filledAt = filling{from, to, namespaces}, now()
	return nil
}

// now is in Unix seconds.
func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

func (k *keeper) put(r *http.Request, route wire.Route) ([]byte, *wire.Refusal) {
	sent, err := io.ReadAll(r.Body)
	value, refusal := wire.DecodePut(r.Header, sent)
	if err != nil || refusal != nil {
		return nil, wire.Detail(http.StatusBadRequest, fmt.Sprint("not a write: ", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	at := now()
	entry := wire.Entry{Namespace: route.Namespace, Key: route.Key, Value: value, CreatedAt: at, UpdatedAt: at}
	if before, ok := k.find(route); ok {
		entry.CreatedAt = before.CreatedAt
	}
	space := k.entries[route.Namespace]
	if space == nil {
		space = make(map[string]wire.Entry)
		k.entries[route.Namespace] = space
	}
	space[route.Key] = entry
	return wire.AppendStored(nil, route.Namespace, route.Key, wire.CodePoints(value)), nil
}

// find finds an entry. The caller holds mu.
func (k *keeper) find(route wire.Route) (wire.Entry, bool) {
	if entry, ok := k.entries[route.Namespace][route.Key]; ok {
		return entry, true
	}
	value, ok := k.filled.value(k.values, route.Namespace, route.Key)
	return wire.Entry{
		Namespace: route.Namespace, Key: route.Key, Value: value, CreatedAt: k.filledAt, UpdatedAt: k.filledAt,
	}, ok
}

func (k *keeper) get(route wire.Route) ([]byte, *wire.Refusal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	entry, ok := k.find(route)
	if !ok {
		return nil, wire.NotFound(route.Namespace, route.Key)
	}
	return entry.AppendJSON(nil), nil
}

func (k *keeper) list(r *http.Request, namespace string) ([]byte, *wire.Refusal) {
	limit, refusal := wire.ParseList(r.URL.RawQuery, namespace)
	if refusal != nil {
		return nil, refusal
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	l := wire.Listing{Namespace: namespace}
	space := k.entries[namespace]
	for key, entry := range space {
		l.Items = append(l.Items, wire.Item{Key: key, Bytes: wire.ListBytes(entry.Value), UpdatedAt: entry.UpdatedAt})
	}
	k.filled.items(namespace, func(key string) {
		if _, ok := space[key]; !ok {
			l.Items = append(l.Items, wire.Item{Key: key, Bytes: valueSize, UpdatedAt: k.filledAt})
		}
	})
	slices.SortFunc(l.Items, func(a, b wire.Item) int { return cmp.Compare(b.UpdatedAt, a.UpdatedAt) })
	l.Items = l.Items[:min(limit, len(l.Items))]
	return l.AppendJSON(nil), nil
}
