package service

import (
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// sendTime limits how long a notification waits for a manager that does not read.
const sendTime = time.Second

// Notifier sends notifications to the service manager. It is safe for concurrent use. Without a
// manager, it does nothing.
type Notifier struct {
	socket string
	logger *slog.Logger
	failed sync.Once // a failed notification is logged once
}

// Active reports whether there is a manager to notify.
func (n *Notifier) Active() bool { return n.socket != "" }

// Tell sends assignments, such as READY=1, in one message. It waits at most sendTime.
func (n *Notifier) Tell(assignments ...string) {
	if !n.Active() {
		return
	}
	// Each message has its own connection: the manager may have restarted.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(sendTime))
		if err == nil {
			_, err = conn.Write([]byte(strings.Join(assignments, "\n")))
		}
		_ = conn.Close() // the datagram was sent or not
	}
	if err != nil {
		n.failed.Do(func() {
			n.logger.Warn("the service manager cannot be notified: it may take this process for dead", "socket", n.socket, "error", err)
		})
	}
}

// Extend returns the assignment that gives the service more time from now for its start, stop or
// reload.
func Extend(d time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10)
}

// Status returns the assignment with the sentence that the manager shows.
func Status(sentence string) string {
	return "STATUS=" + strings.NewReplacer("\n", " ", "\r", " ").Replace(sentence)
}

// The assignments for the service's state.
const (
	Ready    = daemon.SdNotifyReady
	Stopping = daemon.SdNotifyStopping
	Alive    = daemon.SdNotifyWatchdog
)

// Reloading returns the assignments that announce a reload, with its time. Ready ends it.
func Reloading() string {
	return daemon.SdNotifyReloading + "\n" + strings.TrimSuffix(daemon.SdNotifyMonotonicUsec(), "\n")
}
