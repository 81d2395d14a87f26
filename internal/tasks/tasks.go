// Package tasks counts a server's callers and requests upstream, so that the server ends only when all of
// them have ended. It also turns panics into errors.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Tasks counts the tasks that are running. Its methods may be called concurrently.
type Tasks struct {
	detached func() context.Context
	endWaits context.CancelFunc

	// running is the number of tasks, plus closed once no more may start. Every request changes it, so it
	// takes no lock: a thread that loses its core while it holds a lock would stop all others.
	running atomic.Int64
	over    chan struct{} // closed when the last task has ended after Close
	end     sync.Once     // closes over once
}

// closed makes the number of tasks negative.
const closed = math.MinInt64

// New returns an empty count.
func New() *Tasks {
	ctx, cancel := context.WithCancel(context.Background())
	return &Tasks{detached: func() context.Context { return ctx }, endWaits: cancel, over: make(chan struct{})}
}

// Detached returns the context for work that must outlive its request. It ends with EndWaits.
func (t *Tasks) Detached() context.Context { return t.detached() }

// EndWaits ends the waits of all callers, and the detached context.
func (t *Tasks) EndWaits() { t.endWaits() }

// Patience returns a context for a caller's wait for upstream. The context ends after most, when the
// caller leaves, and with EndWaits.
func (t *Tasks) Patience(caller context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(caller, most)
	stop := context.AfterFunc(t.Detached(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Start reports whether a task may start; none may after Close. Done ends the task.
func (t *Tasks) Start() bool {
	if t.running.Add(1) < 0 {
		t.Done()
		return false
	}
	return true
}

// Done ends a task.
func (t *Tasks) Done() {
	if t.running.Add(-1) == closed {
		t.end.Do(func() { close(t.over) })
	}
}

// Close lets no more tasks start, ends the detached context, and waits for all tasks.
func (t *Tasks) Close() {
	t.running.Add(1) // Close itself counts as a task until no more may start
	t.running.Or(closed)
	t.endWaits()
	t.Done()
	<-t.over
}

// ErrPanicked replaces a panic. A panic in a request upstream would end the process, and net/http would log
// the value of a panic in a caller's request.
var ErrPanicked = errors.New("panic")

// Recovered calls f and turns a panic into an error.
func Recovered(logger *slog.Logger, f func() error) (err error) {
	defer RecoverPanic(logger, &err)
	return f()
}

// RecoverPanic turns a panic into an error; its caller defers it. A panic's value may hold an entry's
// value, so only values that the runtime made are logged. It panics again with http.ErrAbortHandler,
// which is no fault: it cuts a connection.
func RecoverPanic(logger *slog.Logger, err *error) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	what := fmt.Sprintf("%T", p)
	if fault, ok := p.(runtime.Error); ok {
		what = fault.Error()
	}
	logger.Error("panic", "panic", what, "stack", string(debug.Stack()))
	*err = ErrPanicked
}

// Sleep returns after d, or with ctx's error if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
