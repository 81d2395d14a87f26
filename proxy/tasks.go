package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// tasks are the callers that are here and the requests upstream that are under way.
type tasks struct {
	// detached returns the context of work that must outlive the request that began it. It
	// ends with endWaits.
	detached func() context.Context
	endWaits context.CancelFunc

	mu      sync.Mutex // guards closed, so that no task starts while close waits
	closed  bool
	running sync.WaitGroup
}

func newTasks() *tasks {
	ctx, cancel := context.WithCancel(context.Background())
	return &tasks{detached: func() context.Context { return ctx }, endWaits: cancel}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Add(1)
	return true
}

func (t *tasks) done() { t.running.Done() }

// close ends the detached context and waits for all tasks.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.endWaits()
	t.running.Wait()
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
