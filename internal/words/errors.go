package words

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// Plain returns an error that reads text and unwraps to err.
func Plain(text string, err error) error { return &plainError{text, err} }

// Unusable returns an error that says in plain words why a file or directory cannot be used. It returns
// any error but an [fs.PathError] as it is.
func Unusable(err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	text := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		text = fmt.Sprintf("permission denied at %s: give it to the user that botwired runs as (%d), or choose another place", at.Path, os.Getuid())
	case errors.Is(err, syscall.ENOTDIR):
		text = fmt.Sprintf("%s is not a directory: choose another place", at.Path)
	case errors.Is(err, syscall.EROFS):
		text = fmt.Sprintf("%s is on a file system that is read-only: choose another place", at.Path)
	default:
		text = fmt.Sprintf("%s cannot be used: %s", at.Path, Reason(at.Err))
	}
	return Plain(text, err)
}

// Reason returns the system's words for an error, without the names of the failed calls.
func Reason(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return err.Error()
}
