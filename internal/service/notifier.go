package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	// queued bounds how many notifications wait for a manager that does not read. Later ones are
	// dropped.
	queued = 64
	// sendTime bounds how long one of them waits in the socket's own queue.
	sendTime = time.Second
	// barrierTime is how long Forget waits for the manager.
	barrierTime = 3 * time.Second
)

// Notifier sends notifications to the service manager, in their order. Its methods may be called
// concurrently. None but Forget waits for the manager; without one, they do nothing.
type Notifier struct {
	socket string
	queue  chan message
	logger *slog.Logger

	once    sync.Once
	closed  chan struct{}
	dropped sync.Once // a dropped or failed notification is logged once
}

// message is one datagram: assignments, one a line, and a file descriptor that goes along.
type message struct {
	state string
	along syscall.RawConn // or nil
	done  func()          // called when it has been sent or will not be; or nil
}

// Run sends until ctx ends or Close is called, and then what is queued, for sendTime at most.
func (n *Notifier) Run(ctx context.Context) {
	for {
		select {
		case m := <-n.queue:
			n.send(m, sendTime)
			continue
		case <-n.closed:
		case <-ctx.Done():
		}
		break
	}
	for end := time.Now().Add(sendTime); ; {
		select {
		case m := <-n.queue:
			n.send(m, time.Until(end))
		default:
			return
		}
	}
}

// Close ends Run.
func (n *Notifier) Close() { n.once.Do(func() { close(n.closed) }) }

// Active reports whether there is a manager that wants to know.
func (n *Notifier) Active() bool { return n.socket != "" }

// Tell sends assignments, such as READY=1, in one message.
func (n *Notifier) Tell(assignments ...string) {
	n.enqueue(message{state: strings.Join(assignments, "\n")})
}

func (n *Notifier) enqueue(m message) {
	if !n.Active() {
		return
	}
	select {
	case n.queue <- m:
	default:
		m.end()
		n.complain("the service manager does not read its notifications")
	}
}

func (m message) end() {
	if m.done != nil {
		m.done()
	}
}

func (n *Notifier) complain(what string, args ...any) {
	n.dropped.Do(func() { n.logger.Warn(what+": it may take this process for dead", args...) })
}

// send sends one message. A connection for each is what a manager that starts anew needs.
func (n *Notifier) send(m message, within time.Duration) {
	defer m.end()
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		err = write(conn, m, time.Now().Add(within))
		_ = conn.Close() // the datagram has been sent or has not
	}
	if err != nil {
		n.complain("the service manager cannot be notified", "socket", n.socket, "error", err)
	}
}

func write(conn *net.UnixConn, m message, by time.Time) error {
	if err := conn.SetWriteDeadline(by); err != nil {
		return err
	}
	if m.along == nil {
		_, err := conn.Write([]byte(m.state))
		return err
	}
	var err error
	lost := m.along.Control(func(fd uintptr) { err = sendAlong(conn, m.state, fd) })
	return errors.Join(lost, err)
}

// Raw is a listener or a file that gives access to its file descriptor.
type Raw interface {
	SyscallConn() (syscall.RawConn, error)
}

// Store has the manager keep a copy of a listener under a name: it goes on taking connections
// while this process ends and the next one starts, which gets it as a [Socket] of that name.
func (n *Notifier) Store(name string, listener Raw) error {
	along, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	n.enqueue(message{state: "FDSTORE=1\nFDNAME=" + name, along: along})
	return nil
}

// Forget has the manager close what it keeps under a name, and returns once it has done so, or
// does not answer.
func (n *Notifier) Forget(name string) error {
	if !n.Active() {
		return nil
	}
	n.Tell("FDSTOREREMOVE=1", "FDNAME="+name)
	mine, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer mine.Close()
	along, err := theirs.SyscallConn()
	if err != nil {
		_ = theirs.Close() // nobody has used it
		return err
	}
	n.enqueue(message{"BARRIER=1", along, func() { _ = theirs.Close() }}) // the manager has a copy
	if err := mine.SetReadDeadline(time.Now().Add(barrierTime)); err != nil {
		return err
	}
	_, _ = mine.Read(make([]byte, 1)) // it ends when the manager closes its copy, or with the deadline
	return nil
}

// Extend is the assignment that gives the service so much time from now on for what it does: its
// start, its stop or a reload.
func Extend(d time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10)
}

// Status is the assignment of the sentence that the manager shows.
func Status(sentence string) string {
	return "STATUS=" + strings.NewReplacer("\n", " ", "\r", " ").Replace(sentence)
}

// The assignments that say what the service is about to do.
const (
	Ready    = daemon.SdNotifyReady
	Stopping = daemon.SdNotifyStopping
	Alive    = daemon.SdNotifyWatchdog
)

// Reloading is the assignments that say since when the service loads its configuration anew:
// Ready ends that.
func Reloading() string {
	return daemon.SdNotifyReloading + "\n" + strings.TrimSuffix(daemon.SdNotifyMonotonicUsec(), "\n")
}
