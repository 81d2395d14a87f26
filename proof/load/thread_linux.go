package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
)

const (
	// readyAtOnce is the most connections that one wait returns.
	readyAtOnce = 256
	// longestWait is how long the thread may take to notice that its context has ended.
	longestWait = 50 * time.Millisecond
	// epollPwait2 is the number of a system call that waits to the nanosecond; on all of
	// Linux's architectures since 5.1, when the numbers became the same. It came with 5.11.
	epollPwait2 = 441
)

// thread serves all connections of a run from one thread of the system.
type thread struct {
	plan    *plan
	epoll   int
	lines   []*line
	open    int // the lines that have requests to make
	turn    int // of an open loop: the number of the next request, over all lines
	in      []byte
	latency Histogram
}

// line is one connection.
type line struct {
	number int
	fd     int
	n      int       // of the request that it makes, or makes next
	due    time.Time // of that
	busy   bool      // it waits for an answer
	done   bool      // it has no request to make
	out    []byte
	rest   []byte // of out, for which the socket has no room yet
	begun  []byte // of the answer, as long as its length is unknown
	read   int    // of the answer, in bytes
	length int    // of the answer; 0 if unknown
	tally  tally
}

// failed is an error that says which request it ends.
func (l *line) failed(err error) error {
	return fmt.Errorf("request %d of connection %d: %w", l.n, l.number, err)
}

// driveThread runs a load on one thread.
func driveThread(ctx context.Context, o *Options) (_ *Result, err error) {
	t := &thread{in: make([]byte, readBuffer)}
	if t.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	defer t.close()
	for i := range o.Connections {
		if err := t.dial(ctx, o.Address, i); err != nil {
			return nil, err
		}
	}
	t.plan = planFrom(o)
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { t.plan.sample(running); return nil })
	g.Go(func() error { return t.run(running) })
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	tallies := make([]tally, len(t.lines))
	for i, l := range t.lines {
		tallies[i] = l.tally
	}
	return t.plan.result(&t.latency, tallies), nil
}

// dial opens a connection, and takes it out of the hands of Go's runtime, which would
// wait for it, too.
func (t *thread) dial(ctx context.Context, address string, number int) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the copy stays open
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	l := &line{number: number}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if l.fd, failed = syscall.Dup(int(fd)); failed == nil {
			syscall.CloseOnExec(l.fd)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	t.lines = append(t.lines, l)
	return t.watch(l, syscall.EPOLL_CTL_ADD, syscall.EPOLLIN)
}

// watch says of which events of a line the thread hears.
func (t *thread) watch(l *line, how int, events uint32) error {
	return syscall.EpollCtl(t.epoll, how, l.fd, &syscall.EpollEvent{Events: events, Fd: int32(l.number)})
}

func (t *thread) close() {
	for _, l := range t.lines {
		_ = syscall.Close(l.fd) // no request is in flight
	}
	_ = syscall.Close(t.epoll) // nobody waits
}

func (t *thread) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := t.plan
	t.open = len(t.lines)
	for _, l := range t.lines {
		if err := t.goOn(l, p.start); err != nil {
			return l.failed(err)
		}
	}
	events := make([]syscall.EpollEvent, readyAtOnce)
	for at := p.start; t.open > 0; at = time.Now() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Duration > 0 && at.After(p.end.Add(stuckAfter)) {
			return errors.New("the server does not answer")
		}
		if err := t.makeDue(at); err != nil {
			return err
		}
		n, err := wait(t.epoll, events, t.untilDue())
		if err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, e := range events[:n] {
			l := t.lines[e.Fd]
			if err := t.serve(l, e.Events); err != nil {
				return l.failed(err)
			}
			if err := t.makeDue(time.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

// goOn makes a line's n-th request, if that is due already.
func (t *thread) goOn(l *line, now time.Time) error {
	l.due = t.plan.due(l.number, l.n, now)
	if !t.plan.more(l.n, l.due, &l.tally) {
		l.done = true
		t.open--
		return nil
	}
	if l.due.After(now) {
		return nil // makeDue makes it
	}
	return t.send(l)
}

// makeDue makes the requests of an open loop that are due, but for those of lines that
// wait for an answer: such a line makes its next with that.
func (t *thread) makeDue(now time.Time) error {
	for t.plan.Rate > 0 && !t.dueNext().After(now) {
		l := t.lines[t.turn%len(t.lines)]
		if n := t.turn / len(t.lines); !l.busy && !l.done && l.n == n {
			if err := t.send(l); err != nil {
				return l.failed(err)
			}
		}
		t.turn++
	}
	return nil
}

// dueNext returns when an open loop's next request is due.
func (t *thread) dueNext() time.Time {
	return t.plan.due(t.turn%len(t.lines), t.turn/len(t.lines), time.Time{})
}

// untilDue returns how long the thread may wait for answers.
func (t *thread) untilDue() time.Duration {
	if t.plan.Rate == 0 {
		return longestWait
	}
	return min(max(time.Until(t.dueNext()), 0), longestWait)
}

// send begins a line's request.
func (t *thread) send(l *line) error {
	l.out = t.plan.Request(l.out[:0], l.number, l.n)
	l.busy, l.read, l.length, l.begun, l.rest = true, 0, 0, l.begun[:0], l.out
	if err := t.write(l); err != nil || len(l.rest) == 0 {
		return err
	}
	return t.watch(l, syscall.EPOLL_CTL_MOD, syscall.EPOLLIN|syscall.EPOLLOUT)
}

// write writes as much of a line's request as the socket has room for.
func (t *thread) write(l *line) error {
	for len(l.rest) > 0 {
		n, err := transfer(syscall.SYS_WRITE, l.fd, l.rest)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN): // a request larger than the socket's buffer
			return nil
		case err != nil:
			return err
		default:
			l.rest = l.rest[n:]
		}
	}
	return nil
}

// serve does what events of a line call for.
func (t *thread) serve(l *line, events uint32) error {
	if len(l.rest) > 0 && events&syscall.EPOLLOUT != 0 {
		err := t.write(l)
		if err == nil && len(l.rest) == 0 {
			err = t.watch(l, syscall.EPOLL_CTL_MOD, syscall.EPOLLIN)
		}
		if err != nil {
			return err
		}
	}
	if events&^syscall.EPOLLOUT == 0 {
		return nil
	}
	return t.receive(l)
}

// passes reports whether a system call is only to be made again.
func passes(err error) bool { return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN) }

// receive reads what has come for a line, and lets it go on when it has its answer.
func (t *thread) receive(l *line) error {
	n := copy(t.in, l.begun)
	k, err := transfer(syscall.SYS_READ, l.fd, t.in[n:])
	switch {
	case passes(err):
		return nil
	case err != nil:
		return err
	case k == 0:
		return errors.New("the server closed the connection")
	case !l.busy:
		return surplus(k)
	}
	if l.read += k; l.length == 0 {
		if l.length, err = t.plan.Answer(t.in[:n+k]); err != nil {
			return err
		}
		if l.length == 0 {
			if n+k == len(t.in) {
				return fmt.Errorf("no end of the head in %d bytes", n+k)
			}
			l.begun = append(l.begun[:0], t.in[:n+k]...)
			return nil
		}
		l.begun = l.begun[:0]
	}
	if l.read < l.length {
		return nil
	}
	if l.read > l.length {
		return surplus(l.read - l.length)
	}
	now := time.Now()
	t.plan.record(&l.tally, &t.latency, l.due, now)
	l.busy = false
	l.n++
	return t.goOn(l, now)
}

// transfer reads or writes without waiting. As wait, it keeps the runtime's processor: the runtime
// does more work to take it from a thread in a system call, and to give it back, than the call does.
func transfer(call uintptr, fd int, b []byte) (int, error) {
	n, _, failed := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))) //nolint:gosec // the kernel reads or fills it
	if failed != 0 {
		return 0, failed
	}
	return int(n), nil
}

// wait returns the number of events that have come. The signal by which the runtime stops a
// goroutine ends it early.
func wait(epoll int, events []syscall.EpollEvent, most time.Duration) (int, error) {
	timeout := struct{ seconds, nanoseconds int64 }{int64(most / time.Second), int64(most % time.Second)} // on all processors
	n, _, failed := syscall.RawSyscall6(epollPwait2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), //nolint:gosec // the kernel fills it
		uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0) //nolint:gosec // the kernel reads it
	switch failed {
	case 0:
		return int(n), nil
	case syscall.EINTR:
		return 0, nil
	}
	return 0, failed
}
