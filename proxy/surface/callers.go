package surface

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/wire"
)

const (
	// callersAtMost bounds the User-Agents that are remembered. A new one replaces the one that was not seen
	// for longest.
	callersAtMost = 64
	// agentLength bounds the kept part of a User-Agent, in bytes.
	agentLength = 120
)

// Callers are the recent callers of the memory API, by User-Agent. Every request is noted, so Note takes no
// lock: a new caller comes with a new map.
type Callers struct {
	known atomic.Pointer[map[string]*caller]
	mu    sync.Mutex // held while known is replaced
}

type caller struct {
	requests atomic.Int64
	last     atomic.Int64 // Unix seconds
	product  string
}

func newCallers() *Callers {
	c := &Callers{}
	c.known.Store(&map[string]*caller{})
	return c
}

// Note counts a request with the User-Agent agent that came at a time, and returns the agent's product.
func (c *Callers) Note(agent []byte, at time.Time) (product string) {
	agent = agent[:min(agentLength, len(agent))]
	found := (*c.known.Load())[string(agent)]
	if found == nil {
		found = c.add(string(agent))
	}
	found.requests.Add(1)
	if now := at.Unix(); found.last.Load() != now {
		found.last.Store(now)
	}
	return found.product
}

func (c *Callers) add(agent string) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := *c.known.Load()
	if found := now[agent]; found != nil {
		return found
	}
	next := maps.Clone(now)
	if len(next) >= callersAtMost {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(next)), func(a, b string) int {
			return cmp.Compare(next[a].last.Load(), next[b].last.Load())
		})
		delete(next, oldest)
	}
	added := &caller{product: wire.Product(agent)}
	next[agent] = added
	c.known.Store(&next)
	return added
}

func (c *Callers) list() []api.Caller {
	known := *c.known.Load()
	docs := make([]api.Caller, 0, len(known))
	for agent, of := range known {
		docs = append(docs, api.Caller{Agent: strings.ToValidUTF8(agent, "?"), Requests: of.requests.Load(), LastAt: time.Unix(of.last.Load(), 0).UTC()})
	}
	slices.SortFunc(docs, func(a, b api.Caller) int {
		return cmp.Or(b.LastAt.Compare(a.LastAt), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Agent, b.Agent))
	})
	return docs
}
