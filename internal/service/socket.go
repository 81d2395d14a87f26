package service

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// Socket is one that the service manager has passed to this process.
type Socket struct {
	// Name is the name of the socket's unit.
	Name string
	file *os.File
}

// Listener makes a listener of the socket, and closes the socket. Closing the listener does not
// remove the name of a Unix socket, which is the manager's. Its errors say what the socket is instead.
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

// Close closes a socket that is not used.
func (s *Socket) Close() { _ = s.file.Close() } // nothing was written to it
