package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

// held is a conversation that was held.
type held struct {
	Through  bool          `json:"through"` // botwired
	Outage   time.Duration `json:"outage"`  // ns; 0 is none
	Said     []said        `json:"said"`
	Wall     float64       `json:"wall"`      // seconds
	P50      float64       `json:"p50_us"`    // of the messages that went well
	P99      float64       `json:"p99_us"`    // likewise
	Longest  float64       `json:"longest"`   // seconds; that the agent waited for one message
	Failed   int           `json:"failed"`    // messages
	Lost     int           `json:"lost"`      // messages that upstream does not have in the end
	Writes   int           `json:"writes"`    // upstream's, until it had everything
	Gone     float64       `json:"gone"`      // seconds since the start, when the outage began
	Arrived  []arrival     `json:"arrived"`   // upstream, likewise
	CaughtUp float64       `json:"caught_up"` // seconds from the outage's end until upstream had everything
}

// said is a message. Times are seconds since the conversation began.
type said struct {
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
	Error string  `json:"error,omitempty"`
}

// arrival is how many messages upstream had at a time, in seconds since the conversation began.
type arrival struct {
	At       float64 `json:"at"`
	Messages int     `json:"messages"`
}

// catchesUpWithin bounds the wait until upstream has everything.
const catchesUpWithin = 2 * time.Minute

// lookEvery is the pause between two looks at what upstream has.
const lookEvery = 5 * time.Millisecond

// sayer holds a conversation with the memory at a URL. It calls amid after half of the messages.
type sayer func(ctx context.Context, url string, messages int, amid func()) (start time.Time, all []said, err error)

func (h *held) name() string {
	name := "directly"
	if h.Through {
		name = "through botwired"
	}
	if h.Outage > 0 {
		name += ", with an outage"
	}
	return name
}

// hold holds the conversation with servers of its own.
func (h *held) hold(ctx context.Context, l *lab, o *conversationOptions, say sayer) (err error) {
	service, err := l.start(ctx, l.upstream(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.remove()) }()
	far, err := openDistance(ctx, service.address, o.Latency, o.Quota)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.close()) }()
	address := far.address
	if h.Through {
		daemon, err := l.start(ctx, l.sidecar(far.address, o.Quota))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, daemon.remove()) }()
		address = daemon.address
	}
	var gone time.Time
	start, all, err := say(ctx, "http://"+address, o.Messages, func() {
		if h.Outage > 0 {
			gone = time.Now()
			far.leave(h.Outage)
		}
	})
	if err != nil {
		return err
	}
	if h.Said = all; h.Outage > 0 {
		h.Gone = gone.Sub(start).Seconds()
	}
	h.sum()
	return h.look(ctx, far, service.address, start)
}

// sidecar is a daemon with the default settings and the service's quota.
func (l *lab) sidecar(upstream string, quota int) command {
	return command{
		program: l.program,
		args: func(address, dir string) []string {
			return []string{
				"serve", "--listen", address, "--data-dir", dir, "--upstream-url", "http://" + upstream,
				"--quota-writes-per-day", strconv.Itoa(quota), "--log-level", "error",
			}
		},
		probe: httpProbe("/_botwired/readyz"),
	}
}

func (h *held) sum() {
	var took []float64
	for _, s := range h.Said {
		h.Wall = max(h.Wall, s.End)
		h.Longest = max(h.Longest, s.End-s.Begin)
		if s.Error != "" {
			h.Failed++
			continue
		}
		took = append(took, (s.End-s.Begin)*1e6)
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		h.P50, h.P99 = took[(n-1)/2], took[(n-1)*99/100]
	}
}

// look waits until upstream has what was said, and counts what it lacks.
func (h *held) look(ctx context.Context, far *distance, service string, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, catchesUpWithin)
	defer cancel()
	want := len(h.Said) - h.Failed
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for far.most() < want {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("upstream has %d of %d messages: %w", far.most(), want, ctx.Err())
		}
	}
	for _, c := range far.arrivals() {
		h.Arrived = append(h.Arrived, arrival{c.at.Sub(began).Seconds(), c.messages})
		if c.messages >= want {
			break
		}
	}
	h.Writes = len(h.Arrived)
	if h.Outage > 0 {
		h.CaughtUp = max(0, h.Arrived[len(h.Arrived)-1].At-h.Gone-h.Outage.Seconds())
	}
	body, err := ask(ctx, http.MethodGet, service, "/memory/conversation/conversation")
	if err != nil {
		return err
	}
	var entry struct{ Value string }
	if err := json.Unmarshal([]byte(body), &entry); err != nil {
		return err
	}
	h.Lost = len(h.Said) - messagesIn(entry.Value)
	return nil
}

// messagesIn is how many messages a history has.
func messagesIn(value string) int {
	var all []json.RawMessage
	if json.Unmarshal([]byte(value), &all) != nil {
		return 0
	}
	return len(all)
}

// listenLocally opens a listener on a free port.
func listenLocally(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

// isWrite reports whether a request writes an entry.
func isWrite(r *http.Request) bool {
	return r.Method == http.MethodPut && wire.ParseRoute(r.URL.Path).Kind == wire.EntryRoute
}
