package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/upstream/selfhost"
)

const (
	// lateWindow is the daemon's upstream.late_window: upstream may carry out a request that
	// it has not answered for so long.
	lateWindow = 4 * time.Second
	// maxDelay bounds the delay of a request that upstream carries out late. The rest of
	// lateWindow is for the way, and for a busy machine.
	maxDelay = time.Second
)

var modes = []faulty.Mode{
	faulty.Healthy, faulty.Slow, faulty.Bytewise, faulty.Refuses, faulty.Hangs, faulty.CutsAfter, faulty.CutsBefore,
	faulty.Overloaded, faulty.Throttles, faulty.Gateway, faulty.BadGateway, faulty.Portal, faulty.Redirects,
	faulty.Misnames, faulty.Lies,
}

// upstream is BotWire's memory service in one mode at a time.
type upstream struct {
	*faulty.Server
	address string
	memory  *selfhost.Server
}

func newUpstream(ctx context.Context, dir string, rng *rand.Rand) (*upstream, error) {
	memory, err := selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(dir, "upstream.db")})
	if err != nil {
		return nil, err
	}
	listen, at := faulty.Connections(ctx, faulty.OwnHost()+":0")
	server, err := faulty.New(faulty.Options{Service: memory.Handler(), Listen: listen, MaxDelay: maxDelay, Rand: rng})
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	return &upstream{Server: server, address: at(), memory: memory}, nil
}

func (u *upstream) end() error { return errors.Join(u.Close(), u.memory.Close()) }
