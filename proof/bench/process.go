package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/tasks"
)

// settleDown is how long a daemon may take to come to rest after its start.
const settleDown = 3 * time.Second

// idle is the cost of a daemon without callers.
type idle struct {
	RSS int64   `json:"rss"` // bytes
	CPU float64 `json:"cpu"` // share of one core, 1 for all of it; below 0 if unknown
}

// measureIdle measures a new daemon in front of an upstream that answers.
func measureIdle(ctx context.Context, l *lab, watched time.Duration) (_ *idle, err error) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		return nil, nil // this system has no such figures
	}
	up, err := l.start(ctx, l.upstream(0))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, up.remove()) }()
	daemon, err := l.start(ctx, l.botwired(up.address))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, daemon.remove()) }()
	if err := tasks.Sleep(ctx, settleDown); err != nil {
		return nil, err
	}
	before, err := daemon.cpuTime()
	if err != nil {
		return nil, err
	}
	if err := tasks.Sleep(ctx, watched); err != nil {
		return nil, err
	}
	after, err := daemon.cpuTime()
	if err != nil {
		return nil, err
	}
	rss, err := daemon.memory("VmRSS")
	return &idle{RSS: rss, CPU: (after - before).Seconds() / watched.Seconds()}, err
}

// cpuTime returns the time that a server's processes have used, to the nanosecond: the usual
// hundredths of a second are too coarse for an idle process. Go's runtime ends no thread that
// matters here. nginx has workers beneath it.
func (s *server) cpuTime() (time.Duration, error) { return treeTime(s.cmd.Process.Pid) }

// treeTime sums over a process and all beneath it.
func treeTime(pid int) (time.Duration, error) {
	total, err := threadsTime(pid)
	if err != nil {
		return 0, err
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		for _, word := range strings.Fields(readFile(list)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", list, err)
			}
			time, err := treeTime(child)
			if err != nil {
				return 0, err
			}
			total += time
		}
	}
	return total, nil
}

// threadsTime sums over the threads of a process.
func threadsTime(pid int) (total time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, errors.Join(err, errors.New("no schedstat"))
	}
	for _, name := range threads {
		words := strings.Fields(readFile(name))
		if len(words) == 0 {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// memory returns a line of the process's status, in bytes: VmRSS is the resident
// memory, VmHWM the most that it ever was.
func (s *server) memory(line string) (int64, error) {
	for each := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))) {
		if value, ok := strings.CutPrefix(each, line+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s: the process is gone, or this system has no such figure", line)
}

func readFile(name string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(content)
}
