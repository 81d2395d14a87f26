//go:build unix && !aix && !solaris

package attach

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/words"
)

const (
	// usersFile is the lock of a data directory's users: "botwired run" and "botwired mcp" hold it
	// shared while they use the daemon. A daemon that one of them started ends when it gets the lock
	// exclusively, and writes into the file what it drained.
	usersFile = "run.lock"
	// startFile is locked by the command that starts a daemon, and then by that daemon.
	startFile = "run.start.lock"
	// usersCheck is the time between a daemon's checks for users.
	usersCheck = 100 * time.Millisecond
	// lockFileMode keeps other users from holding the lock.
	lockFileMode = 0o600
	dirMode      = 0o700
)

// fileLock is a lock on a file. It is released with the process at the latest.
type fileLock struct{ file *os.File }

// openLock opens a data directory's lock file without locking it. If the file does not exist and create
// is not set, the error is fs.ErrNotExist.
func openLock(dataDir, name string, create bool) (*fileLock, error) {
	flags := os.O_RDWR | syscall.O_NOFOLLOW
	if create {
		if err := os.MkdirAll(dataDir, dirMode); err != nil {
			return nil, err
		}
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(filepath.Join(dataDir, name), flags, lockFileMode)
	if err != nil {
		return nil, err
	}
	return &fileLock{f}, nil
}

// try takes the lock, syscall.LOCK_SH or LOCK_EX, or returns false if another process is in the way. It
// also converts the lock between the two kinds; if that fails, the lock may be lost.
func (l *fileLock) try(how int) (taken bool, err error) {
	for {
		err := syscall.Flock(int(l.file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, &fs.PathError{Op: "flock", Path: l.file.Name(), Err: err}
		}
	}
}

func (l *fileLock) close() error { return l.file.Close() }

// Drained counts what a daemon drained at its end. The daemon writes it into usersFile.
type Drained struct {
	Settled int `json:"settled"`
	Dead    int `json:"dead"`
	Pending int `json:"pending"`
	// Unanswered counts those of the pending ones whose last request may still land.
	Unanswered int `json:"unanswered"`
}

// left returns what the last daemon wrote, or false if there is nothing.
func (l *fileLock) left() (result Drained, ok bool) {
	text, err := os.ReadFile(l.file.Name())
	return result, err == nil && json.Unmarshal(text, &result) == nil
}

// UntilUnused returns a context that ends, and so ends the daemon, when no command uses the data
// directory any more. Commands find the daemon by its address in the data directory, if another program has the
// configured one. report writes what the daemon drained.
func UntilUnused(ctx context.Context, dataDir, address string, logger *slog.Logger) (
	_ context.Context, report func(Drained), stop func() error, err error,
) {
	users, err := openLock(dataDir, usersFile, true)
	if err != nil {
		return nil, nil, nil, words.Unusable(err)
	}
	if err := errors.Join(users.file.Truncate(0), writeOwn(dataDir, addressFile, address)); err != nil {
		return nil, nil, nil, errors.Join(words.Unusable(err), users.close())
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		users.awaitNone(ctx, logger)
	}()
	report = func(r Drained) {
		text, err := json.Marshal(r)
		if err == nil {
			_, err = users.file.WriteAt(text, 0) // not synced: nobody needs it after a power cut
		}
		if err != nil {
			logger.Warn("the command that ends this daemon will not know what is still pending", "error", err)
		}
	}
	return ctx, report, func() error { cancel(); <-done; return users.close() }, nil
}

// awaitNone returns with the lock when no other process holds it, or when ctx ends.
func (l *fileLock) awaitNone(ctx context.Context, logger *slog.Logger) {
	tick := time.NewTicker(usersCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		alone, err := l.try(syscall.LOCK_EX)
		if err != nil {
			logger.Error("nobody knows whether a command still uses the daemon: it goes on until SIGTERM", "error", err)
			<-ctx.Done()
			return
		}
		if alone {
			logger.Info("no botwired run or botwired mcp uses the daemon any more")
			return
		}
	}
}
