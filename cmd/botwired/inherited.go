package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/listen"
	"github.com/botwired/botwired/internal/service"
)

// inherited holds what the service manager passed to the daemon: where to send notifications, and the
// listening socket of a socket unit, if any. Without a socket, the daemon listens itself.
type inherited struct {
	manager  *service.Inherited
	notifier *service.Notifier
	passed   net.Listener // nil without a socket unit
	socket   config.Socket
}

// inherit takes over the service manager's listener. The caller closes it if the daemon does not start.
func inherit(manager *service.Inherited) (*inherited, error) {
	in := &inherited{manager: manager}
	if n := len(manager.Sockets); n > 1 {
		for _, s := range manager.Sockets {
			s.Close()
		}
		return nil, fmt.Errorf("the service manager has passed %d sockets, and botwired listens at one: expected one ListenStream= in the socket unit", n)
	}
	for _, s := range manager.Sockets {
		var err error
		if in.passed, err = s.Listener(); err != nil {
			return nil, err
		}
		in.socket.Name = s.Name
		if in.socket.Address, err = listenSetting(in.passed.Addr()); err != nil {
			return nil, errors.Join(err, in.close())
		}
	}
	return in, nil
}

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

func (in *inherited) close() error {
	if in.passed == nil {
		return nil
	}
	return in.passed.Close()
}

// othersMayWrite is the mode bit that lets every user connect to a Unix socket.
const othersMayWrite = 0o002

// admits rejects a configuration without a token if every user of the machine can connect to the
// manager's Unix socket. By default, the socket's mode allows that. admits also rejects a socket that
// the daemon does not find, such as one in another mount namespace.
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

// listen returns the daemon's listener. outlives says that the service manager holds a copy of the
// listener, which stays open when the daemon ends. A configured address must equal that of the
// manager's socket, as text.
func (in *inherited) listen(ctx context.Context, loaded *config.Loaded) (listener net.Listener, outlives bool, err error) {
	c := &loaded.Config
	if in.passed == nil {
		listener, err = listen.On(ctx, c)
		return listener, false, err
	}
	if from := loaded.Source("listen"); from.Layer != config.FromSocket && c.Listen != in.socket.Address {
		return nil, false, errors.Join(fmt.Errorf("listen = %q (%s): expected %s, where the service manager listens for botwired (%s), or no value: the socket's address counts then",
			c.Listen, from, in.socket.Address, in.socket.Name), in.close())
	}
	return in.passed, true, nil // guard 22.13
}
