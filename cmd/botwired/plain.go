package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// plainError says in plain words what another error means, and what to do.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// notReached says why a request to the daemon got no answer.
func notReached(err error) error {
	var dns *net.DNSError
	var timeout net.Error
	var text string
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		text = `nobody listens there: start the daemon with "botwired serve", or say with --listen where it is`
	case errors.Is(err, fs.ErrPermission):
		text = "this user may not connect to it: use the user that the daemon runs as"
	case errors.As(err, &dns):
		text = "the name " + dns.Name + " has no address: check the setting listen"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		text = "no answer came in time: botwired's log may say why"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.Contains(err.Error(), "server closed idle connection"): // net/http has no type for it
		text = "the connection was closed before the answer came: the daemon has ended, or another program than botwired listens there"
	case isForeignProtocol(err):
		text = "another program than botwired listens there: its answer is not HTTP"
	default:
		text = reason(err)
	}
	return &plainError{text, err}
}

// isForeignProtocol reports whether net/http could not read an answer. It has no type for
// that.
func isForeignProtocol(err error) bool {
	return strings.Contains(err.Error(), "malformed HTTP") || strings.Contains(err.Error(), "HTTP/1.x transport connection broken")
}

// notListening says why the daemon cannot listen.
func notListening(err error) error {
	var text string
	switch {
	case errors.Is(err, fs.ErrPermission):
		text = "permission denied: this user may not listen there (ports below 1024 are for root): choose another address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		text = "this machine does not have that address: choose another"
	case errors.Is(err, fs.ErrNotExist):
		text = "the directory of the socket does not exist: make it, or choose another"
	default:
		text = reason(err)
	}
	return &plainError{text, err}
}

// unusable says why a file or a directory cannot be used. An error of another kind has its
// own words, and stays as it is.
func unusable(err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) {
		return err
	}
	var text string
	switch {
	case errors.Is(err, fs.ErrPermission):
		text = fmt.Sprintf("permission denied at %s: give it to the user that botwired runs as (%d), or choose another place", at.Path, os.Getuid())
	case errors.Is(err, syscall.ENOTDIR):
		text = fmt.Sprintf("%s is not a directory: choose another place", at.Path)
	case errors.Is(err, syscall.EROFS):
		text = fmt.Sprintf("%s is on a file system that is read-only: choose another place", at.Path)
	default:
		text = fmt.Sprintf("%s cannot be used: %s", at.Path, reason(at.Err))
	}
	return &plainError{text, err}
}

// reason returns the system's words for an error, without the calls that failed.
func reason(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}
