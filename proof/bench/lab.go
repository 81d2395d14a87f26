package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/botwired/botwired/proof/loopback"
)

// startsWithin bounds how long a server may take to answer.
const startsWithin = 2 * time.Minute

// lab starts servers, each with a folder of its own, and removes all of it at the end.
type lab struct {
	program string   // botwired
	env     []string // botwired's
	self    string   // this program
	dir     string
	far     string // for servers that stand for another machine

	mu      sync.Mutex
	servers map[*server]struct{}
	started int
}

// memory is a file system in memory, where there is one: servers that stand for another
// machine do not use the disk to measure.
const memory = "/dev/shm"

// newLab makes a folder for everything in dir.
func newLab(program, dir string) (*lab, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, "bench-"); err != nil {
		return nil, err
	}
	l := &lab{program: program, self: self, dir: dir, far: dir, servers: make(map[*server]struct{})}
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		if l.far, err = os.MkdirTemp(memory, "bench-"); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return l, nil
}

// close ends all servers and removes their data.
func (l *lab) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.servers {
		s.kill()
	}
	return errors.Join(os.RemoveAll(l.dir), os.RemoveAll(l.far))
}

// server is a process that the lab has started.
type server struct {
	lab     *lab
	cmd     *exec.Cmd
	address string
	dir     string
	exited  chan struct{}
	output  bytes.Buffer // read it only after the exit
}

// command says how to start a server. probe asks the server whether it is ready.
type command struct {
	program string
	args    func(address, dir string) []string
	probe   func(ctx context.Context, address string) error
	env     []string
	address string // if empty, a free one
	far     bool   // whether it stands for another machine
	workers bool   // whether it has processes beneath it, which do not end with it
}

// start returns when the server is ready.
func (l *lab) start(ctx context.Context, c command) (*server, error) {
	s, err := l.launch(ctx, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	for tick := time.NewTicker(time.Millisecond); ; {
		if err = c.probe(ctx, s.address); err == nil {
			tick.Stop()
			return s, nil
		}
		select {
		case <-tick.C:
			continue
		case <-s.exited:
			err = fmt.Errorf("%s ended: %s", filepath.Base(c.program), s.output.Bytes())
		case <-ctx.Done():
			err = fmt.Errorf("%s is not ready: %w", filepath.Base(c.program), err)
		}
		tick.Stop()
		return nil, errors.Join(err, s.remove())
	}
}

// launch starts the process and does not wait.
func (l *lab) launch(ctx context.Context, c command) (*server, error) {
	s := &server{lab: l, address: c.address, exited: make(chan struct{})}
	var err error
	if s.address == "" {
		if s.address, err = loopback.FreeAddress(ctx); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started++
	parent := l.dir
	if c.far {
		parent = l.far
	}
	s.dir = filepath.Join(parent, fmt.Sprint(l.started))
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, c.program, c.args(s.address, s.dir)...)
	// The server sees nothing of this machine's configuration.
	s.cmd.Env = append([]string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH")}, c.env...)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if c.workers {
		endTogether(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // nobody asks how it ended
	}()
	l.servers[s] = struct{}{}
	return s, nil
}

// kill ends the process, and those beneath it, with SIGKILL.
func (s *server) kill() {
	_ = s.cmd.Cancel() // it may have ended
	<-s.exited
}

// remove ends the process and removes its data.
func (s *server) remove() error {
	s.kill()
	s.lab.mu.Lock()
	delete(s.lab.servers, s)
	s.lab.mu.Unlock()
	return os.RemoveAll(s.dir)
}
