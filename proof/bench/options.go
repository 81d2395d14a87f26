package main

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are the settings that the figures depend on. Times are nanoseconds in JSON.
type settings struct {
	Rounds      int           `json:"rounds"`
	For         time.Duration `json:"for"`    // of a cell in a round
	Warmup      time.Duration `json:"warmup"` // of the load before that
	Connections []int         `json:"connections"`
	Open        []int         `json:"open_percent"` // rates of the open loop: see openRates
	Latency     time.Duration `json:"latency"`      // of upstream
	Idle        time.Duration `json:"idle"`         // the time of the idle daemon
	Env         []string      `json:"env"`          // botwired's environment
}

// options are the command line's.
type options struct {
	settings
	program string // botwired
	redis   string // redis-server
	nginx   string
	dir     string // the servers' data
	json    string // the file for the figures
	only    *regexp.Regexp
	strict  bool
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds")
	flags.DurationVar(&o.For, "for", 1500*time.Millisecond, "how long a round measures a cell")
	flags.DurationVar(&o.Warmup, "warmup", 300*time.Millisecond, "how long the load lasts before that")
	flags.DurationVar(&o.Latency, "latency", 50*time.Millisecond, "how far away upstream is")
	flags.DurationVar(&o.Idle, "idle", 20*time.Second, "how long to measure the idle daemon")
	connections := flags.String("connections", "1,8,64,1000,4000",
		"numbers of connections; other workloads than GET hit and PUT of distinct keys run at 1 and 64 of them only")
	open := flags.String("open", "25,50,75",
		"rates of the open loop, in per cent of what the slowest contender on this machine reaches at 64 connections; empty for none")
	flags.StringVar(&o.program, "program", "bin/botwired", "the botwired to measure")
	flags.Func("env", "a variable of botwired's environment, such as GOGC=400; several times for several", func(variable string) error {
		o.Env = append(o.Env, variable)
		return nil
	})
	flags.StringVar(&o.redis, "redis", "redis-server", "the Redis to compare it with")
	flags.StringVar(&o.nginx, "nginx", "nginx", "the nginx to compare it with")
	flags.StringVar(&o.dir, "dir", "bin", "folder for the servers' data, on the disk to measure")
	flags.StringVar(&o.json, "json", "bin/bench.json", "file for the figures in JSON")
	only := flags.String("only", "", "only the workloads that match this regular expression")
	flags.BoolVar(&o.strict, "strict", false, "fail when a figure misses its goal")
	quick := flags.Bool("quick", false, "one short round, to see that everything works; its figures mean nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		o.Rounds, o.For, o.Warmup, o.Idle, o.Latency = 1, 50*time.Millisecond, 10*time.Millisecond, time.Second, quickLatency
	}
	if o.Rounds < 1 || o.For <= 0 || o.Warmup < 0 || o.Idle <= 0 || o.Latency < 0 || flags.NArg() > 0 {
		return nil, fmt.Errorf("expected at least one round, times above zero and no argument")
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(workloads(), func(w workload) bool { return o.only.MatchString(w.name) }) {
		return nil, fmt.Errorf("-only: no workload matches %q", *only)
	}
	if *open != "" {
		if o.Open, err = counts("open", *open); err != nil {
			return nil, err
		}
	}
	o.Connections, err = counts("connections", *connections)
	return o, errors.Join(err, enoughFiles(raiseOpenFiles(), slices.Max(append(o.Connections, 0))))
}

// quickLatency is that of upstream in a quick run: the daemons have everything upstream sooner.
const quickLatency = 10 * time.Millisecond

// openFilesBeside is what a server or this program may have open besides its connections. The daemon
// keeps as many descriptors for upstream as for its callers.
const openFilesBeside = 1000

// enoughFiles refuses more connections than the limit of open files allows; 0 is no limit.
func enoughFiles(limit uint64, connections int) error {
	if need := uint64(2*connections + openFilesBeside); limit > 0 && connections > 64 && limit < need {
		return fmt.Errorf("%d connections need %d open files, and the limit is %d: raise it (ulimit -n), or use fewer -connections",
			connections, need, limit)
	}
	return nil
}

// counts reads a list of numbers of at least 1.
func counts(name, list string) (numbers []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s = %q: expected numbers of 1 or more, such as 1,8,64", name, list)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
