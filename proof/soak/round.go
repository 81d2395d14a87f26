package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/numbered"
	"github.com/botwired/botwired/internal/tasks"
)

const (
	loadFor = 12 * time.Second // of a round
	// healLimit bounds how long the daemon may take, once everything is healthy, to carry
	// upstream what it holds. It ends a hang: a busy machine is slow.
	healLimit = 10 * time.Minute
	// giveUpFor bounds how long the daemon goes on to give up what it has, once the disk has room again.
	giveUpFor = 2 * time.Second
	// slowPart is how long a part of a round may take without the soak printing which one.
	slowPart = 30 * time.Second
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
	slow      string // the parts of the last round that took long, and the daemon's reasons for a slow drain
	fills     int
	shortages int // of inodes and descriptors
	rounds    int
	freed     time.Time // when the disk was given back last

	harm     harm
	evidence string            // a copy of the journal as the last start after damage has found it
	letters  map[string]string // the namespaces of the dead letters, by their IDs
	// After a recovery, doubted are the entries of which older writes may be pending again, with the least that upstream
	// holds once nothing is; doubtedLogs the paths of those to which numbers are appended. unsettled says that there may
	// be other dead letters. All are for the rest of a round.
	doubted     map[*numbered.Entry]int
	doubtedLogs map[string]bool
	// anew says that the journal was made anew. The daemon then has no copies, and does not know what it has sent. It takes
	// its own write for another host's until it has read it upstream (contract 17).
	anew      bool
	unsettled bool
	conflicts map[string]bool // versions that have lost a conflict as they may, by entry and time
}

func (s *soak) base() string { return s.daemon.Load().URL() }

// isFull reports whether another program fills the disk.
func (s *soak) isFull() bool { return s.load.shortage.Load()%2 == 1 }

// full records that another program begins to fill the disk, or ends.
func (s *soak) full(now bool) {
	if s.isFull() != now {
		s.load.shortage.Add(1)
	}
}

// free gives the disk back. A daemon that was about to give up names does so yet.
func (s *soak) free() error {
	err := s.disk.free()
	if s.isFull() {
		time.Sleep(giveUpFor)
	}
	s.full(false)
	s.freed = time.Now()
	return err
}

// restart starts the daemon, at the address that it had before.
func (s *soak) restart(ctx context.Context) error {
	address := ""
	if old := s.daemon.Load(); old != nil {
		address = old.Address()
	}
	d, err := s.startAt(ctx, address)
	if err != nil {
		return err
	}
	s.daemon.Store(d)
	return nil
}

func (s *soak) startAt(ctx context.Context, address string) (*daemon, error) {
	return startDaemon(ctx, s.binary, s.disk.dir+"/data", address, s.up.address, append(s.settings(), "--auth-token-file", s.tokens.file)...)
}

// round works, heals and compares. It returns the daemon's figures at its end.
func (s *soak) round(ctx context.Context, kill bool) (figures, error) {
	working, done := context.WithTimeout(ctx, loadFor)
	defer done()
	s.slow = ""
	var callers sync.WaitGroup
	callers.Go(func() { s.load.run(working) })
	err := s.disturb(working, kill)
	done()
	// A daemon that waits for room learns no new token, and one that waits for a descriptor answers no writer.
	err = errors.Join(err, s.free(), s.daemon.Load().allow(0))
	s.timed("the callers ended", callers.Wait)
	s.rounds++
	if err = errors.Join(err, ctx.Err()); err != nil {
		return figures{}, err
	}
	s.timed("the damage was mended", func() { err = s.mend(ctx) })
	if err != nil {
		return figures{}, err
	}
	if err := s.up.be(mode{Mode: faulty.Healthy}); err != nil {
		return figures{}, err
	}
	if err := s.drained(ctx); err != nil {
		return figures{}, err
	}
	s.timed("upstream and the daemon were compared", func() {
		err = errors.Join(s.readLetters(ctx, s.unsettled), s.lost(ctx), s.compare(ctx), s.load.compareLogs(ctx))
	})
	if err != nil {
		return figures{}, err
	}
	if s.unsettled {
		if err := s.refuse(ctx); err != nil {
			return figures{}, err
		}
	}
	clear(s.doubted)
	clear(s.doubtedLogs)
	s.unsettled, s.anew = false, false
	s.load.caller.http.CloseIdleConnections()
	_ = tasks.Sleep(ctx, upstreamTimeout+time.Second) // the last requests that hang end
	return s.daemon.Load().measure(ctx, s.load.caller)
}

// timed does a part of a round, and notes it if it takes long.
func (s *soak) timed(what string, part func()) {
	began := time.Now()
	if part(); time.Since(began) > slowPart {
		s.slow += fmt.Sprintf("; %s after %s", what, time.Since(began).Round(time.Second))
	}
}

// disturb changes the daemon's surroundings until ctx ends.
func (s *soak) disturb(ctx context.Context, kill bool) error {
	for tasks.Sleep(ctx, time.Duration(500+s.rng.IntN(1500))*time.Millisecond) == nil {
		if err := s.alive(ctx); err != nil {
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
			if err := s.end(n == 3); err != nil {
				return err
			}
			s.kills++
			if s.rng.IntN(2) == 0 {
				if err := s.damage(); err != nil {
					return err
				}
			}
			if err := s.revive(ctx, false); err != nil {
				return err
			}
		case n == 5 && kill:
			if err := s.damage(); err != nil {
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
	Summary    api.Summary
}

func statusOf(ctx context.Context, c *caller) (doc status, err error) {
	err = get(ctx, c, "/_botwired/status", &doc)
	return doc, err
}

// drained waits until the daemon has carried upstream what it holds. It keeps the reasons that the daemon gives for a slow
// one, or why it gives none.
func (s *soak) drained(ctx context.Context) error {
	began, slow := time.Now(), s.slow
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	for {
		now, err := statusOf(ctx, s.load.caller)
		if err == nil && now.Pending == 0 && !now.Rebuilding {
			return nil
		}
		if took := time.Since(began); took > slowPart {
			s.slow = fmt.Sprintf("%s; after %s, ", slow, took.Round(time.Second))
			if err == nil {
				s.slow += describe(&now)
			} else {
				s.slow += err.Error()
			}
		}
		if dead := s.daemon.Load().Alive(); dead != nil || tasks.Sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%d writes are pending %s after everything was healthy again: %w\n%s",
				now.Pending, time.Since(began).Round(time.Second), errors.Join(err, dead, ctx.Err()), s.daemon.Load().Tail())
		}
	}
}

// describe says what a daemon that drains slowly waits for.
func describe(now *status) string {
	texts := []string{fmt.Sprintf("%d writes were pending: %s", now.Pending, now.Summary.Text)}
	for _, also := range now.Summary.Also {
		texts = append(texts, also.Text)
	}
	return strings.Join(texts, "; ")
}

// mend has all damage found that is left, so that the journal is sound.
func (s *soak) mend(ctx context.Context) error {
	if err := s.alive(ctx); err != nil || len(s.harm.open) == 0 {
		return err
	}
	if err := s.end(s.rng.IntN(2) == 0); err != nil {
		return err
	}
	return s.revive(ctx, true)
}

// lost expects that nothing has lost a conflict, but for what a recovery may have brought back.
func (s *soak) lost(ctx context.Context) error {
	var doc api.Lost
	if err := get(ctx, s.load.caller, "/_botwired/revisions/lost?limit=1000", &doc); err != nil {
		return err
	}
	doubted := maps.Clone(s.doubtedLogs)
	for e := range s.doubted {
		doubted[e.Path()] = true
	}
	for _, l := range doc.Lost {
		path := numbered.NewEntry(l.Namespace, l.Key).Path()
		version := fmt.Sprint(path, " ", l.UpdatedAt)
		if doubted[path] || s.anew && !l.Here {
			s.conflicts[version] = true
		}
		if !s.conflicts[version] {
			s.load.wrong("a version of %s has lost a conflict, which this daemon has written: %t", path, l.Here)
		}
	}
	return nil
}

// compare reads every entry from upstream and from the daemon.
func (s *soak) compare(ctx context.Context) error {
	for _, e := range s.load.keys {
		e.Acknowledged(s.doubted[e])
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
	for range looksBack {
		if err := s.lookBack(ctx, s.load.keys[s.rng.IntN(len(s.load.keys))]); err != nil {
			return err
		}
	}
	return nil
}
