package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/service"
)

// keptName is the name under which the service manager keeps the daemon's listener.
const keptName = "botwired-listener"

// inherited is where a daemon listens that a service manager has started. A socket of the
// manager's own (a socket unit's) wins over the listener that an earlier daemon has had it keep;
// if there is neither, the daemon listens itself, and has the manager keep its listener: callers
// who come between two daemons wait for the next one, and are not refused.
type inherited struct {
	manager  *service.Inherited
	notifier *service.Notifier
	logger   *slog.Logger
	passed   net.Listener // nil if there is none
	kept     net.Listener // nil if there is none
	socket   config.Socket
	spoilt   bool // the manager keeps what is of no use
}

// inherit takes over the listeners of the service manager. Its caller closes them if the daemon
// does not begin.
func inherit(manager *service.Inherited) (*inherited, error) {
	in := &inherited{manager: manager}
	var passed []*service.Socket
	for _, s := range manager.Sockets {
		if s.Name != keptName {
			passed = append(passed, s)
			continue
		}
		if l, err := s.Listener(); err != nil || in.kept != nil {
			in.spoilt = true // what is of no use is closed
		} else {
			in.kept = l
		}
	}
	var err error
	switch {
	case len(passed) > 1:
		err = fmt.Errorf("the service manager has passed %d sockets, and botwired listens at one: expected one ListenStream= in the socket unit", len(passed))
	case len(passed) == 1:
		if in.passed, err = passed[0].Listener(); err == nil {
			in.socket.Name = passed[0].Name
			in.socket.Address, err = listenSetting(in.passed.Addr())
		}
	}
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

// listenSetting is the value of the setting listen that stands for an address.
func listenSetting(at net.Addr) (string, error) {
	switch at := at.(type) {
	case *net.TCPAddr:
		return at.String(), nil
	case *net.UnixAddr:
		if len(at.Name) > 0 && at.Name[0] == '/' {
			return "unix://" + at.Name, nil
		}
	}
	return "", fmt.Errorf("the service manager has passed a socket at %q: expected one with a TCP address or the absolute path of a Unix socket", at.String())
}

// close closes what was taken over.
func (in *inherited) close() error {
	var errs []error
	for _, l := range []net.Listener{in.passed, in.kept} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// load loads the configuration, for which the manager's socket says where the daemon listens.
func (in *inherited) load(load func(config.Socket) (*config.Loaded, error)) (*config.Loaded, error) {
	loaded, err := load(in.socket)
	if err == nil {
		err = in.admits(loaded)
	}
	return loaded, err
}

// notify begins to notify the manager; the returned function ends that.
func (in *inherited) notify(ctx context.Context, logger *slog.Logger) (end func()) {
	in.logger, in.notifier = logger, in.manager.Notifier(logger)
	if err := in.manager.Complaint; err != nil {
		logger.Warn("the service manager gets no signs of life: its variables make no sense", "error", err)
	}
	if !in.notifier.Active() {
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() { in.notifier.Run(context.WithoutCancel(ctx)) })
	return func() {
		in.notifier.Close()
		wg.Wait()
	}
}

// othersMayWrite is the right of every user to connect to a Unix socket.
const othersMayWrite = 0o002

// admits refuses a configuration without a token if every user of the machine can connect to the
// manager's Unix socket: it made the socket with such a mode unless its unit says otherwise. A socket
// that the daemon does not find may have its name in another mount namespace.
func (in *inherited) admits(loaded *config.Loaded) error {
	path, ok := loaded.Config.Socket()
	if !ok || in.passed == nil || loaded.Config.Auth.TokenFile != "" {
		return nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("botwired does not find the socket %s of the service manager, and cannot see who may connect: expected a socket outside of what the service's unit hides, as PrivateTmp= hides /tmp, or auth.token_file set", path)
	}
	if err != nil {
		return fmt.Errorf("the socket of the service manager: %w", err)
	}
	if info.Mode()&othersMayWrite == 0 {
		return nil
	}
	return fmt.Errorf("the socket %s has mode %04o, so every user of this machine can connect: expected SocketMode=0660 or 0600 in the socket unit, or auth.token_file set",
		path, info.Mode().Perm())
}

// listen returns the daemon's listener, and whether another process has a copy of it that outlives
// the daemon.
func (in *inherited) listen(ctx context.Context, loaded *config.Loaded) (listener net.Listener, outlives bool, err error) {
	c := &loaded.Config
	if in.passed != nil {
		if from := loaded.Source("listen"); from.Layer != config.FromSocket && !isAt(ctx, c.Listen, in.passed.Addr()) {
			return nil, false, errors.Join(fmt.Errorf("listen = %q (%s): expected %s, where the service manager listens for botwired (%s), or no value: the socket's address counts then",
				c.Listen, from, in.socket.Address, in.socket.Name), in.close())
		}
		return in.passed, true, in.forget()
	}
	if in.kept != nil && isAt(ctx, c.Listen, in.kept.Addr()) {
		if listener, err := in.takeBack(ctx, c); listener != nil || err != nil {
			return listener, true, err
		}
	}
	if err := in.forget(); err != nil {
		return nil, false, err
	}
	if listener, err = listen(ctx, c); err != nil {
		return nil, false, err
	}
	return listener, in.keep(listener), nil
}

// takeBack returns the listener that the manager has kept; nil if it leads nowhere, as the name
// of a Unix socket that was removed does.
func (in *inherited) takeBack(ctx context.Context, c *config.Config) (net.Listener, error) {
	path, ok := c.Socket()
	if !ok {
		return in.kept, nil
	}
	lock, err := lockSocket(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen = %q: %w", c.Listen, err), in.close())
	}
	conn, err := (&net.Dialer{Timeout: staleCheck}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // that there is one was the question
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, unlock(lock)
	} // any other error, such as that of a full queue, is no reason to refuse those who wait in it
	return &lockedListener{in.kept, lock}, nil
}

// forget has the manager close the listener that it has kept for an earlier daemon. It returns
// once its address is free again.
func (in *inherited) forget() error {
	var err error
	switch {
	case in.kept != nil:
		in.logger.Info("the listener of the last start is not where botwired is to listen: botwired closes it", "address", in.kept.Addr().String())
		err = in.kept.Close()
	case !in.spoilt:
		return nil
	}
	in.kept, in.spoilt = nil, false
	return errors.Join(err, in.notifier.Forget(keptName))
}

// keep has the manager keep the listener, and reports whether it may.
func (in *inherited) keep(listener net.Listener) bool {
	raw, ok := listener.(service.Raw)
	if !ok || !in.manager.Keeps() {
		return false
	}
	if err := in.notifier.Store(keptName, raw); err != nil {
		in.logger.Warn("the service manager does not keep the listener: callers are refused during a restart", "error", err)
		return false
	}
	if unix, ok := innermost(listener).(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // the next daemon has it
	}
	return true
}

func innermost(l net.Listener) net.Listener {
	if locked, ok := l.(*lockedListener); ok {
		return locked.Listener
	}
	return l
}

// isAt reports whether a listener at an address is where the setting listen says.
func isAt(ctx context.Context, setting string, at net.Addr) bool {
	c := config.Config{Listen: setting}
	if path, ok := c.Socket(); ok {
		unix, isUnix := at.(*net.UnixAddr)
		return isUnix && unix.Name == path
	}
	tcp, isTCP := at.(*net.TCPAddr)
	host, port, err := net.SplitHostPort(setting)
	if !isTCP || err != nil || portNumber(port) != 0 && portNumber(port) != tcp.Port {
		return false
	}
	own := plain(tcp.AddrPort().Addr())
	if host == "" {
		return own.IsUnspecified()
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return plain(ip) == own
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // a name without an address is not there
	for _, ip := range addresses {
		if plain(ip) == own {
			return true
		}
	}
	return false
}

// portNumber is 0 for any port.
func portNumber(port string) int {
	n, err := strconv.Atoi(port)
	if err != nil {
		return -1
	}
	return n
}
