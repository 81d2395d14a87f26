package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/proof/supervisor"
)

const (
	loadFor = 12 * time.Second // of a round
	// healLimit bounds how long the daemon may take, once everything is healthy, to carry
	// upstream what it holds. It ends a hang: a busy machine is slow.
	healLimit = 10 * time.Minute
)

// soak is one run.
type soak struct {
	binary string
	disk   *disk
	up     *upstream
	load   *load
	direct *caller // upstream itself
	*sealing
	tokens *tokens
	rng    *rand.Rand

	daemon    atomic.Pointer[daemon]
	kills     int
	fills     int
	shortages int // of inodes and descriptors
	rounds    int
	letter    string // ID of the last dead letter that letters has seen
}

func (s *soak) base() string { return s.daemon.Load().URL() }

// full records that another program begins to fill the disk, or ends.
func (s *soak) full(now bool) {
	if isFull := s.load.shortage.Load()%2 == 1; isFull != now {
		s.load.shortage.Add(1)
	}
}

// free gives the disk back.
func (s *soak) free() error {
	err := s.disk.free()
	s.full(false)
	return err
}

// restart starts the daemon, at the address that it had before.
func (s *soak) restart(ctx context.Context) error {
	address := ""
	if old := s.daemon.Load(); old != nil {
		address = old.Address()
	}
	d, err := startDaemon(ctx, s.binary, s.disk.dir+"/data", address, s.up.address, append(s.settings(), "--auth-token-file", s.tokens.file)...)
	if err != nil {
		return err
	}
	s.daemon.Store(d)
	return nil
}

// round works, heals and compares. It returns the daemon's figures at its end.
func (s *soak) round(ctx context.Context, kill bool) (figures, error) {
	working, done := context.WithTimeout(ctx, loadFor)
	defer done()
	var callers sync.WaitGroup
	callers.Go(func() { s.load.run(working) })
	err := s.disturb(working, kill)
	done()
	err = errors.Join(err, s.free()) // a daemon that waits for room learns no new token
	callers.Wait()
	s.rounds++
	if err = errors.Join(err, ctx.Err(), s.daemon.Load().Alive()); err != nil {
		return figures{}, err
	}
	if err := errors.Join(s.daemon.Load().allow(0), s.up.be(mode{Mode: faulty.Healthy})); err != nil {
		return figures{}, err
	}
	if err := s.drained(ctx); err != nil {
		return figures{}, err
	}
	if err := errors.Join(s.letters(ctx), s.compare(ctx), s.load.compareLogs(ctx)); err != nil {
		return figures{}, err
	}
	s.load.caller.http.CloseIdleConnections()
	_ = tasks.Sleep(ctx, upstreamTimeout+time.Second) // the last requests that hang end
	return s.daemon.Load().measure(ctx, s.load.caller)
}

// disturb changes the daemon's surroundings until ctx ends.
func (s *soak) disturb(ctx context.Context, kill bool) error {
	for tasks.Sleep(ctx, time.Duration(500+s.rng.IntN(1500))*time.Millisecond) == nil {
		if err := s.daemon.Load().Alive(); err != nil {
			return err
		}
		if err := errors.Join(s.daemon.Load().allow(0), s.up.be(modes[s.rng.IntN(len(modes))])); err != nil {
			return err
		}
		switch n := s.rng.IntN(8); {
		case n == 0 && s.disk.mounted:
			// The other program sometimes takes the reserve, too, which the daemon leaves alone.
			s.full(true)
			if err := errors.Join(s.disk.free(), s.disk.fill(s.rng.Int64N(2*diskReserve))); err != nil {
				return err
			}
			s.fills++
		case n == 1:
			if err := s.free(); err != nil {
				return err
			}
		case n == 2:
			if err := s.reload(); err != nil {
				return err
			}
		case n == 6 && s.disk.mounted:
			s.full(true)
			if err := s.disk.fillInodes(s.rng.IntN(8)); err != nil {
				return err
			}
			s.shortages++
		case n == 7:
			if err := s.daemon.Load().starve(s.rng.IntN(24)); err != nil {
				return err
			}
			s.shortages++
		case (n == 3 || n == 4) && kill:
			end := s.daemon.Load().Kill
			if n == 4 {
				end = func() error { return supervisor.Stop(s.daemon.Load().Process, stopLimit) }
			}
			if err := end(); err != nil {
				return err
			}
			s.kills++
			if err := s.restart(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
	return nil
}

// status is the part of the daemon's status that the soak reads.
type status struct {
	Pending    int
	Rebuilding bool
}

func (s *soak) status(ctx context.Context) (doc status, err error) {
	code, answer, err := s.load.caller.do(ctx, http.MethodGet, "/_botwired/status", nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("status: %d %.200s", code, answer)
	}
	if err != nil {
		return doc, err
	}
	return doc, json.Unmarshal(answer, &doc)
}

// drained waits until the daemon has carried upstream what it holds.
func (s *soak) drained(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	for {
		now, err := s.status(ctx)
		if err == nil && now.Pending == 0 && !now.Rebuilding {
			return nil
		}
		if dead := s.daemon.Load().Alive(); dead != nil || tasks.Sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%d writes are pending %s after everything was healthy again: %w\n%s",
				now.Pending, time.Since(began).Round(time.Second), errors.Join(err, dead, ctx.Err()), s.daemon.Load().Tail())
		}
	}
}

// letters expects no further dead letter: upstream refuses no write for good, and no other host writes.
func (s *soak) letters(ctx context.Context) error {
	code, answer, err := s.load.caller.do(ctx, http.MethodGet, "/_botwired/dead-letters?limit=10000&after="+s.letter, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d %.200s", code, answer)
	}
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	var doc struct {
		Letters []struct {
			ID, Kind, Namespace, Key, Error string
		} `json:"dead_letters"`
	}
	if err := json.Unmarshal(answer, &doc); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	for _, l := range doc.Letters {
		s.letter = l.ID
		s.load.wrong("a dead letter of %s/%s: %s: %s", l.Namespace, l.Key, l.Kind, l.Error)
	}
	return s.lost(ctx)
}

// lost expects that nothing has lost a conflict.
func (s *soak) lost(ctx context.Context) error {
	code, answer, err := s.load.caller.do(ctx, http.MethodGet, "/_botwired/revisions/lost?limit=10", nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d %.200s", code, answer)
	}
	var doc struct {
		Lost []struct {
			Namespace, Key string
			Here           bool
		}
	}
	if err == nil {
		err = json.Unmarshal(answer, &doc)
	}
	if err != nil {
		return fmt.Errorf("lost: %w", err)
	}
	for _, l := range doc.Lost {
		s.load.wrong("a version of %s/%s has lost a conflict, which this daemon has written: %t", l.Namespace, l.Key, l.Here)
	}
	return nil
}

// compare reads every entry from upstream and from the daemon.
func (s *soak) compare(ctx context.Context) error {
	for _, e := range s.load.keys {
		oldest := e.Oldest()
		code, there, err := s.direct.do(ctx, http.MethodGet, s.path(e), nil)
		if err != nil {
			return fmt.Errorf("upstream: %w", err)
		}
		var doc struct{ Value string }
		if code == http.StatusOK {
			err = json.Unmarshal(there, &doc)
		}
		value := doc.Value
		if err == nil {
			value, err = s.open(e, value)
		}
		if err == nil {
			err = e.Show(oldest, value, code == http.StatusOK)
		}
		if err != nil {
			s.load.wrong("upstream: %s/%s %v", e.Namespace, e.Key, err)
		}
		if !s.load.read(ctx, e) {
			return errors.Join(errors.New("the daemon does not answer"), s.daemon.Load().Alive())
		}
	}
	return nil
}
