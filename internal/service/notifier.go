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

// sendTime bounds how long a notification waits for a manager that does not read.
const sendTime = time.Second

// Notifier sends notifications to the service manager. Its methods may be called concurrently. Without a
// manager, they do nothing.
type Notifier struct {
	socket string
	logger *slog.Logger
	failed sync.Once // a failed notification is logged once
}

// Active reports whether there is a manager that wants to know.
func (n *Notifier) Active() bool { return n.socket != "" }

// Tell sends assignments, such as READY=1, in one message. It waits for sendTime at most.
func (n *Notifier) Tell(assignments ...string) {
	if !n.Active() {
		return
	}
	// A connection for each message: the manager may have started anew.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(sendTime))
		if err == nil {
			_, err = conn.Write([]byte(strings.Join(assignments, "\n")))
		}
		_ = conn.Close() // the datagram has been sent or has not
	}
	if err != nil {
		n.failed.Do(func() {
			n.logger.Warn("the service manager cannot be notified: it may take this process for dead", "socket", n.socket, "error", err)
		})
	}
}

// Extend returns the assignment that gives the service so much time from now on for what it does: its
// start, its stop or a reload.
func Extend(d time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10)
}

// Status returns the assignment of the sentence that the manager shows.
func Status(sentence string) string {
	return "STATUS=" + strings.NewReplacer("\n", " ", "\r", " ").Replace(sentence)
}

// The assignments that say what the service is about to do.
const (
	Ready    = daemon.SdNotifyReady
	Stopping = daemon.SdNotifyStopping
	Alive    = daemon.SdNotifyWatchdog
)

// Reloading returns the assignments that say since when the service loads its configuration anew:
// Ready ends that.
func Reloading() string {
	return daemon.SdNotifyReloading + "\n" + strings.TrimSuffix(daemon.SdNotifyMonotonicUsec(), "\n")
}
