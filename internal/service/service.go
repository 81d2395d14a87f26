// Package service implements a daemon's side of its service manager, as systemd defines it: the
// notifications of sd_notify(3), the watchdog of sd_watchdog_enabled(3) and the sockets of
// sd_listen_fds(3).
//
// It does not need systemd: without systemd's variables, [Inherit] returns the zero [Inherited], and
// everything else does nothing. A manager that does not read delays a notification by at most a second,
// and no request. The package imports nothing of the project.
package service

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Inherited holds what the service manager passed to this process. It is zero without a manager.
type Inherited struct {
	// Sockets are the sockets that the manager opened, in its order.
	Sockets []*Socket
	// Watchdog is how long the manager waits for a sign of life; 0 if the manager does not wait for
	// one.
	Watchdog time.Duration
	// Complaint is an error about an invalid variable. The process goes on without it.
	Complaint error

	notify string // NOTIFY_SOCKET
}

// The service manager's variables. Those about sockets begin with LISTEN_.
const (
	envNotify   = "NOTIFY_SOCKET"
	envWatchdog = "WATCHDOG_"
	envListen   = "LISTEN_"
)

// Inherit returns what the manager passed to this process. It unsets the LISTEN_ variables and keeps
// the sockets from children. The caller calls it once, before it starts or opens anything.
func Inherit() Inherited {
	var in Inherited
	for _, f := range activation.Files(true) {
		in.Sockets = append(in.Sockets, &Socket{Name: f.Name(), file: f})
	}
	in.Watchdog, in.Complaint = daemon.SdWatchdogEnabled(false)
	in.notify = os.Getenv(envNotify)
	return in
}

// Outside returns an environment without the manager's variables, for a process that is not the service
// and outlives it.
func Outside(environ []string) []string {
	var out []string
	for _, each := range environ {
		name, _, _ := strings.Cut(each, "=")
		if name != envNotify && !strings.HasPrefix(name, envWatchdog) && !strings.HasPrefix(name, envListen) {
			out = append(out, each)
		}
	}
	return out
}

// Notifier returns a notifier for the manager.
func (in *Inherited) Notifier(logger *slog.Logger) *Notifier {
	return &Notifier{socket: in.notify, logger: logger}
}

// Socket is a socket that the service manager passed to this process.
type Socket struct {
	// Name is the name of the socket's unit.
	Name string
	file *os.File
}

// Listener returns a listener on the socket, and closes s. Closing the listener does not remove a Unix
// socket's name, because the name belongs to the manager. Listener fails if the socket is not a
// listening stream socket.
func (s *Socket) Listener() (net.Listener, error) {
	defer s.Close()
	is, err := listens(s.file)
	if err == nil && !is {
		err = errors.New("this is no listening stream socket: the socket's unit needs ListenStream=, and Accept=no")
	}
	var l net.Listener
	if err == nil {
		l, err = net.FileListener(s.file)
	}
	if err != nil {
		return nil, fmt.Errorf("the service manager has passed %q: %w", s.Name, err)
	}
	return l, nil
}

// Close closes an unused socket.
func (s *Socket) Close() { _ = s.file.Close() } // nothing was written to it

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
