package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/botwired/botwired/proof/load"
)

// botwired is a daemon in front of an upstream. Nothing grows stale during a
// measurement, and it logs only warnings; its other settings are the defaults.
func (l *lab) botwired(upstream string, settings ...string) command {
	return command{
		program: l.program,
		args: func(address, dir string) []string {
			return append([]string{
				"serve", "--listen", address, "--data-dir", dir, "--upstream-url", "http://" + upstream,
				"--cache-fresh-for", "24h", "--log-level", "error",
			}, settings...)
		},
		probe: httpProbe("/_botwired/readyz"),
		env:   l.env,
	}
}

// upstream is the memory service at a distance.
func (l *lab) upstream(latency time.Duration) command {
	return command{
		program: l.program,
		args: func(address, dir string) []string {
			return []string{
				"selfhost", "--listen", address, "--data-dir", dir, "--embedded-latency", latency.String(), "--log-level", "error",
			}
		},
		probe: httpProbe("/health"),
		far:   true,
	}
}

func (l *lab) bare() command {
	return command{
		program: l.self,
		args:    func(address, _ string) []string { return []string{"bare", address, "0s"} },
		probe:   httpProbe("/0"),
	}
}

// sink is an upstream at a distance: see sinkHandler. The address may be empty.
func (l *lab) sink(address string, latency time.Duration) command {
	return command{
		program: l.self,
		args:    func(address, _ string) []string { return []string{"sink", address, latency.String()} },
		probe:   httpProbe("/health"),
		address: address,
	}
}

// redisReads keeps nothing on the disk.
func redisReads(program string) command {
	return redisServer(program, "--appendonly", "no")
}

// redisWrites puts each write on the disk before it answers, as botwired does.
func redisWrites(program string) command {
	return redisServer(program, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
}

func redisServer(program string, settings ...string) command {
	return command{
		program: program,
		args: func(address, dir string) []string {
			host, port, _ := net.SplitHostPort(address) // the address is loopback's
			return append([]string{"--bind", host, "--port", port, "--dir", dir, "--save", "",
				"--maxclients", "6000", "--tcp-backlog", "4096"}, settings...)
		},
		probe: func(ctx context.Context, address string) error {
			return once(ctx, address, load.RedisAnswer, load.AppendWord(load.AppendCommand(nil, 1), "PING"))
		},
	}
}

var redisVersion = regexp.MustCompile(`v=(\S+)`)

// findRedis returns the version of the installed Redis.
func findRedis(ctx context.Context, program string) (string, error) {
	return versionOf(ctx, redisVersion, program, "--version")
}

// versionOf returns what a program says of its version.
func versionOf(ctx context.Context, pattern *regexp.Regexp, program, flag string) (string, error) {
	out, err := exec.CommandContext(ctx, program, flag).CombinedOutput()
	if err != nil {
		return "", err
	}
	version := pattern.FindSubmatch(out)
	if version == nil {
		return "", fmt.Errorf("%s %s says %q", program, flag, out)
	}
	return string(version[1]), nil
}

// echo answers each request with so many bytes: see serveEcho.
func (l *lab) echo(size int) command {
	return command{
		program: l.self,
		args:    func(address, _ string) []string { return []string{"echo", address, strconv.Itoa(size)} },
		probe:   httpProbe("/"),
	}
}

func httpProbe(path string) func(context.Context, string) error {
	return func(ctx context.Context, address string) error {
		return once(ctx, address, load.HTTPAnswer, get(address, path))
	}
}

// once makes one request, and it has to succeed.
func once(ctx context.Context, address string, answer load.Parser, request []byte) error {
	_, err := load.Run(ctx, load.Options{
		Address: address, Connections: 1, Requests: 1, Answer: answer,
		Request: func(dst []byte, _, _ int) []byte { return append(dst, request...) },
	})
	return err
}

// get is a GET of a path.
func get(address, path string) []byte {
	return load.AppendHost(append(load.AppendGet(nil), path...), address)
}
