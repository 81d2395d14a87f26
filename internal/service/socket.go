package service

import (
	"errors"
	"fmt"
	"net"
	"os"
)

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
