package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/numbered"
	"github.com/botwired/botwired/internal/tasks"
)

// One process may grow by so much between the ends of its first round and of its last.
// Connections upstream come and go, with two goroutines each.
const (
	growsAtMost       = 64 << 20 // bytes resident: Go returns memory late
	descriptorsAtMost = 64
	goroutinesAtMost  = 64
)

// restLimit bounds how long a process that has grown may take to give back what it took. On
// a busy machine, connections end late, and Go returns memory late.
const restLimit = 3 * time.Minute

func main() {
	lasts := flag.Duration("for", 5*time.Minute, "how long it lasts")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "how the surroundings change")
	binary := flag.String("binary", "bin/botwired", "the daemon")
	think := flag.Duration("think", 0, "how long a caller pauses between two requests, on average: beside other work, 10ms leaves it the processors")
	sealed := flag.Bool("sealed", false, "the daemon seals all namespaces, and nothing plain may come upstream")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *binary, *lasts, *think, *seed, *sealed); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, out io.Writer, binary string, lasts, think time.Duration, seed uint64, sealed bool) (err error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	d, err := newDisk()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	if !d.mounted {
		fmt.Fprintln(out, "no disk can be mounted here: none is filled")
	}
	apart, err := newDisk() // in memory if possible: a slow disk of upstream's is no part of the test
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, apart.remove()) }()
	var seals *sealing
	if sealed {
		if seals, err = newSealing(apart.dir); err != nil {
			return err
		}
	}
	up, err := newUpstream(ctx, apart.dir, rand.New(rand.NewPCG(seed, 1)), seals)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.end()) }()
	secrets, err := newTokens(apart.dir)
	if err != nil {
		return err
	}
	none := func() string { return "" }
	s := &soak{
		binary: binary, disk: d, up: up, rng: rng, sealing: seals, tokens: secrets,
		direct:   newCaller(func() string { return "http://" + up.address }, none),
		evidence: filepath.Join(apart.dir, "evidence"), letters: make(map[string]string),
		doubted: make(map[*numbered.Entry]int), doubtedLogs: make(map[string]bool), conflicts: make(map[string]bool),
	}
	s.load = &load{model: newModel(), caller: newCaller(s.base, secrets.token), seed: seed, think: think, logs: newLogs(), epochs: &epochs{}}
	s.load.tail = func() string { return s.daemon.Load().Tail() }
	if err := s.restart(ctx); err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { s.follow(following) })
	defer func() { stop(); follower.Wait() }()
	defer func() { err = errors.Join(err, s.daemon.Load().Kill()) }()
	if err := s.refuse(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d\n", seed)
	err = s.live(ctx, out, lasts)
	return errors.Join(err, s.summarize(out, err == nil))
}

// live goes through the rounds: with kills in the first half of the time, then one life.
func (s *soak) live(ctx context.Context, out io.Writer, lasts time.Duration) error {
	began := time.Now()
	for time.Since(began) < lasts/2 {
		if _, err := s.report(ctx, out, began, true); err != nil {
			return err
		}
	}
	var first, last figures
	for n := 0; n < 2 || time.Since(began) < lasts; n++ {
		f, err := s.report(ctx, out, began, false)
		if err != nil {
			return err
		}
		if last = f; n == 0 {
			first = f
		}
	}
	return s.level(ctx, first, last)
}

// level is an error if the process takes more than at first, and goes on to do so at rest.
func (s *soak) level(ctx context.Context, first, last figures) (err error) {
	for end := time.Now().Add(restLimit); grown(first, last) != nil && time.Now().Before(end) && tasks.Sleep(ctx, time.Second) == nil; {
		if last, err = s.daemon.Load().measure(ctx, s.load.caller); err != nil {
			return err
		}
		s.load.caller.http.CloseIdleConnections()
	}
	return grown(first, last)
}

// report goes through one round and prints a line about it.
func (s *soak) report(ctx context.Context, out io.Writer, began time.Time, kill bool) (figures, error) {
	f, err := s.round(ctx, kill)
	if err != nil {
		return f, fmt.Errorf("%w%s", err, s.slow)
	}
	fmt.Fprintf(out, "%6s: %d rounds, %d requests, %d kills, %d fillings of the disk, %d other shortages; %d wrong; %d MB resident, %d descriptors, %d goroutines%s\n",
		time.Since(began).Round(time.Second), s.rounds, s.load.asked.Load(), s.kills, s.fills, s.shortages, s.load.wrongCount(),
		f.resident>>20, f.descriptors, f.goroutines, s.slow)
	if n := s.load.wrongCount(); n >= shownAtMost {
		return f, fmt.Errorf("%d answers were wrong", n)
	}
	return f, nil
}

// grown is an error if a process takes more at the end of its life.
func grown(first, last figures) error {
	var errs []error
	for _, f := range []struct {
		name           string
		first, last    int64
		atMost, divide int64
		unit           string
	}{
		{"resident memory", first.resident, last.resident, growsAtMost, 1 << 20, " MB"},
		{"open descriptors", first.descriptors, last.descriptors, descriptorsAtMost, 1, ""},
		{"goroutines", first.goroutines, last.goroutines, goroutinesAtMost, 1, ""},
	} {
		if f.last-f.first > f.atMost {
			errs = append(errs, fmt.Errorf("%s grew from %d%s to %d%s", f.name, f.first/f.divide, f.unit, f.last/f.divide, f.unit))
		}
	}
	return errors.Join(errs...)
}

// summarize prints the counts. It returns an error if something was wrong, or if something was not
// tried.
func (s *soak) summarize(out io.Writer, whole bool) error {
	l := s.load
	fmt.Fprintf(out, "%d requests: %d without an answer, %d repeated under their names, %d writes refused by a full disk, "+
		"%d reads of entries that nobody could know; %d kills, %d fillings, %d shortages of inodes and descriptors\n",
		l.asked.Load(), l.unanswered.Load(), l.repeated.Load(), l.full.Load(), l.unknown.Load(), s.kills, s.fills, s.shortages)
	fmt.Fprintln(out, &s.harm)
	if whole {
		if err := s.harm.tried(s.kills); err != nil {
			return err
		}
	}
	if s.sealing != nil {
		fmt.Fprintln(out, s.watch.Count())
		if err := s.watch.Err(); err != nil {
			return err
		}
	}
	for _, text := range l.wrongs {
		fmt.Fprintln(out, "wrong:", text)
	}
	if n := l.wrongCount(); n > 0 {
		return fmt.Errorf("%d answers were wrong", n)
	}
	if l.asked.Load() == 0 {
		return errors.New("no caller made a request")
	}
	if whole {
		fmt.Fprintln(out, "nothing was lost, came back or was misread; nothing has grown")
	}
	return nil
}
