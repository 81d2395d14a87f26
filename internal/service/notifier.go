package service

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	// queued bounds how many notifications wait for a manager that does not read. Later ones are
	// dropped.
	queued = 64
	// sendTime bounds how long one of them waits in the socket's own queue.
	sendTime = time.Second
)

// Notifier sends notifications to the service manager, in their order. Its methods may be called
// concurrently. None waits for the manager; without one, they do nothing.
type Notifier struct {
	socket string
	queue  chan string
	logger *slog.Logger

	once    sync.Once
	closed  chan struct{}
	dropped sync.Once // a dropped or failed notification is logged once
}

// Run sends until ctx ends or Close is called, and then what is queued, for sendTime at most.
func (n *Notifier) Run(ctx context.Context) {
	for {
		select {
		case state := <-n.queue:
			n.send(state, sendTime)
			continue
		case <-n.closed:
		case <-ctx.Done():
		}
		break
	}
	for end := time.Now().Add(sendTime); ; {
		select {
		case state := <-n.queue:
			n.send(state, time.Until(end))
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
	if !n.Active() {
		return
	}
	select {
	case n.queue <- strings.Join(assignments, "\n"):
	default:
		n.complain("the service manager does not read its notifications")
	}
}

func (n *Notifier) complain(what string, args ...any) {
	n.dropped.Do(func() { n.logger.Warn(what+": it may take this process for dead", args...) })
}

// send sends one message. A connection for each is what a manager that starts anew needs.
func (n *Notifier) send(state string, within time.Duration) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(within))
		if err == nil {
			_, err = conn.Write([]byte(state))
		}
		_ = conn.Close() // the datagram has been sent or has not
	}
	if err != nil {
		n.complain("the service manager cannot be notified", "socket", n.socket, "error", err)
	}
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
