//go:build !unix || aix || solaris

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/botwired/botwired/upstream"
)

// errNoRun says what to do where the system lacks what "botwired run" needs.
var errNoRun = errors.New("this platform lacks the file locks and signals that botwired run needs: " +
	"start botwired serve, and set BOTWIRE_URL yourself")

func untilUnused(context.Context, string, *slog.Logger) (context.Context, func(upstream.FlushResult), func() error, error) {
	return nil, nil, nil, errNoRun
}

func (p *process) runBeside(context.Context, *settingFlags, []string) error { return errNoRun }
