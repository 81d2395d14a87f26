package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/wire"
)

const (
	// drillNamespace is where a drill writes. A request may name another one that begins so:
	// it must not be an agent's.
	drillNamespace = "botwired-drill"
	// drillTime is about how long upstream fails and recovers in a drill, if the request does
	// not say. A drill may ask for maxDrillTime at most.
	drillTime    = 16 * time.Second
	minDrillTime = 4 * time.Second
	maxDrillTime = 2 * time.Minute
	// drillEnd is the longest that a drill goes on after that: it waits until everything is
	// upstream, and deletes its entries.
	drillEnd = 90 * time.Second
	// drillEvents bounds the events that wait for a caller who reads slowly. A drill has fewer.
	drillEvents = 256
)

// DrillRequest says which drill somebody asks for.
type DrillRequest struct {
	Namespace string
	Seed      uint64
	Lasts     time.Duration // about; without its end
}

// ErrDrilling says that a drill is under way. There is one at a time.
var ErrDrilling = errors.New("a drill is under way: there is one at a time, and it ends by itself")

// driller answers requests for a drill.
type driller struct {
	tasks    *tasks
	rehearse func(ctx context.Context, r DrillRequest, emit func(event any)) error // nil if there are no drills
	logger   *slog.Logger
	// stopping returns a context that ends with stop: no drill goes on while botwired stops, as
	// its failures and its writes would hold up what is pending.
	stopping func() context.Context
	stop     context.CancelFunc
}

func newDriller(running *tasks, rehearse func(ctx context.Context, r DrillRequest, emit func(event any)) error, logger *slog.Logger) *driller {
	stopping, stop := context.WithCancel(context.Background())
	return &driller{running, rehearse, logger, func() context.Context { return stopping }, stop}
}

// errDrillStopped is the end of a drill in a daemon that ends.
var errDrillStopped = errors.New("botwired is stopping, and no drill holds that up")

// answer has upstream fail for a namespace of the drill's own. It answers with the events of the
// drill, each a line of JSON. A caller that leaves ends the drill.
func (d *driller) answer(w http.ResponseWriter, r *http.Request) error {
	if d.rehearse == nil {
		return wire.Detail(http.StatusNotFound, "Not Found")
	}
	request, err := drillRequest(r)
	if err != nil {
		return err
	}
	if err := allow(w, request.Lasts+drillEnd); err != nil {
		return err
	}
	ctx, cancel := d.tasks.patience(r.Context(), request.Lasts+drillEnd)
	defer cancel()
	defer context.AfterFunc(d.stopping(), cancel)()
	events, ended := make(chan any, drillEvents), make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if err != nil && d.stopping().Err() != nil {
				err = errDrillStopped
			}
			close(events)
			ended <- err
		}()
		defer recoverPanic(d.logger, &err)
		err = d.rehearse(ctx, request, func(event any) {
			select {
			case events <- event:
			default: // nobody reads, and the drill waits for nobody
			}
		})
	}()
	return d.tell(w, events, ended, cancel)
}

// tell passes the events on, and returns once the drill has ended. An error before the
// first event is the answer.
func (d *driller) tell(w http.ResponseWriter, events <-chan any, ended <-chan error, stop context.CancelFunc) error {
	began := false
	write := func(event any) {
		if !began {
			began = true
			w.Header().Set("Content-Type", "application/jsonl")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
		err := json.NewEncoder(w).Encode(event)
		if err == nil {
			err = supported(http.NewResponseController(w).Flush())
		}
		if err != nil {
			stop() // the caller has left
		}
	}
	for event := range events {
		write(event)
	}
	err := <-ended
	switch {
	case err == nil:
		return nil
	case began:
		write(drillFailure{"failed", unixSeconds(time.Now()), err.Error()})
		return nil
	case errors.Is(err, ErrDrilling):
		return wire.Detail(http.StatusConflict, err.Error())
	}
	return wire.Detail(http.StatusServiceUnavailable, err.Error())
}

// drillFailure is the last event of a drill that could not go on.
type drillFailure struct {
	Event string  `json:"event"`
	At    float64 `json:"at"` // Unix seconds
	Text  string  `json:"text"`
}

func drillRequest(r *http.Request) (d DrillRequest, err error) {
	if d.Namespace, err = namespaceParameter(r); err != nil {
		return d, err
	}
	if d.Namespace == "" {
		d.Namespace = drillNamespace
	}
	if !strings.HasPrefix(d.Namespace, drillNamespace) {
		return d, wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("namespace=%q: expected a name that begins with %s: a drill has a namespace for itself", d.Namespace, drillNamespace))
	}
	if d.Lasts, err = durationParameter(r, "for", drillTime, maxDrillTime, "2m"); err != nil {
		return d, err
	}
	d.Lasts = max(d.Lasts, minDrillTime)
	d.Seed = rand.Uint64N(1 << 32)
	if text := r.URL.Query().Get("seed"); text != "" {
		if d.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return d, wire.Detail(http.StatusBadRequest, fmt.Sprintf("seed=%.40q: expected a whole number", text))
		}
	}
	return d, nil
}
