// Package service is a daemon's side of the service manager that runs it, as systemd defines it:
// the notifications of sd_notify(3), the watchdog of sd_watchdog_enabled(3) and the sockets of
// sd_listen_fds(3).
//
// Nothing here needs systemd: without the variables that it sets, [Inherit] returns the zero
// [Inherited], and everything else does nothing. A manager that does not read holds up a notification for a
// second at most, and no request. The package imports nothing of the project.
package service

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Inherited holds what the service manager has given to this process. The zero Inherited is for a process that
// nobody supervises.
type Inherited struct {
	// Sockets are those that the manager has opened, in its order.
	Sockets []*Socket
	// Watchdog is how long the manager waits for a sign of life; 0 if it does not.
	Watchdog time.Duration
	// Complaint is about a variable that makes no sense. The process goes on without it.
	Complaint error

	notify string // NOTIFY_SOCKET
}

// The variables of the service manager. The ones about sockets begin with LISTEN_.
const (
	envNotify   = "NOTIFY_SOCKET"
	envWatchdog = "WATCHDOG_"
	envListen   = "LISTEN_"
)

// Inherit takes what the manager has given to this process. It unsets the LISTEN_ variables, so that
// no child takes the sockets for its own, and no child inherits them. The caller calls it once, before
// it starts or opens anything.
func Inherit() Inherited {
	var in Inherited
	for _, f := range activation.Files(true) {
		in.Sockets = append(in.Sockets, &Socket{Name: f.Name(), file: f})
	}
	in.Watchdog, in.Complaint = daemon.SdWatchdogEnabled(false)
	in.notify = os.Getenv(envNotify)
	return in
}

// Outside returns an environment without the manager's variables, for a process that is not the
// service and outlives this one.
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

// Notifier returns a notifier to the manager.
func (in *Inherited) Notifier(logger *slog.Logger) *Notifier {
	return &Notifier{socket: in.notify, logger: logger}
}
