//go:build !unix || aix || solaris

package attach

import (
	"context"
	"errors"
	"log/slog"
)

// errNoRun says what to do where the system lacks what "botwired run" needs.
var errNoRun = errors.New("this platform lacks the file locks and signals that botwired run needs: " +
	"start botwired serve, and set BOTWIRE_URL yourself")

// UntilUnused fails here.
func UntilUnused(context.Context, string, *slog.Logger) (context.Context, func(Drained), func() error, error) {
	return nil, nil, nil, errNoRun
}

// Run fails here.
func Run(context.Context, Options, []string) error { return errNoRun }

// Drained counts what a daemon has drained at its end.
type Drained struct{ Settled, Dead, Pending int }
