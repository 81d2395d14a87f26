package proxy

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

// tasks are the callers that are here and the requests upstream that are under way.
type tasks struct {
	// detached returns the context of work that must outlive the request that began it. It
	// ends with endWaits.
	detached func() context.Context
	endWaits context.CancelFunc

	// running is the number of tasks, plus closed once no more may start. Every request changes it,
	// so it takes no lock: a thread that loses its core while it holds one would stop all others.
	running atomic.Int64
	over    chan struct{} // closed when running has become closed
	end     sync.Once     // closes over
}

// closed makes the number of tasks negative.
const closed = math.MinInt64

func newTasks() *tasks {
	ctx, cancel := context.WithCancel(context.Background())
	return &tasks{detached: func() context.Context { return ctx }, endWaits: cancel, over: make(chan struct{})}
}

// patience bounds how long a caller waits for upstream: to a time, until the caller
// leaves, and until endWaits.
func (t *tasks) patience(caller context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(caller, most)
	stop := context.AfterFunc(t.detached(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// start reports whether a task may start; it does not after close. done ends the task.
func (t *tasks) start() bool {
	if t.running.Add(1) < 0 {
		t.done()
		return false
	}
	return true
}

func (t *tasks) done() {
	if t.running.Add(-1) == closed {
		t.end.Do(func() { close(t.over) })
	}
}

// close ends the detached context and waits for all tasks.
func (t *tasks) close() {
	t.running.Add(1) // this one is a task too, until no more may start
	t.running.Or(closed)
	t.endWaits()
	t.done()
	<-t.over
}

// errPanicked stands for a panic. A panic in a request upstream would end the process,
// and net/http would log the value of a panic in a caller's request.
var errPanicked = errors.New("panic")

// recovered calls f and makes an error of a panic.
func recovered(logger *slog.Logger, f func() error) (err error) {
	defer recoverPanic(logger, &err)
	return f()
}

// recoverPanic makes an error of a panic. The value of a panic may hold an entry's
// value, so it is logged only if the runtime made it. http.ErrAbortHandler is no fault:
// it cuts a connection.
func recoverPanic(logger *slog.Logger, err *error) {
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
	*err = errPanicked
}
