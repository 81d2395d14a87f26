package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/botwired/botwired/proof/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "bare":
			return serveAt(ctx, args[1:], bareHandler())
		case "sink":
			return serveAt(ctx, args[1:], sinkHandler())
		case "echo":
			return serveEchoAt(ctx, args[1:])
		case "histories":
			return histories(ctx, args[1:])
		case "conversation":
			return conversation(ctx, args[1:])
		}
	}
	return compare(ctx, args)
}

// compare runs the program without an argument.
func compare(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	l, err := newLab(o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.env = o.Env
	report := &report{Machine: machine.This(ctx, o.dir), Options: o.settings}
	if report.Idle, err = measureIdle(ctx, l, o.Idle); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	s, err := openStage(ctx, l, o)
	if err != nil {
		return err
	}
	report.Redis, report.Nginx = s.redisVersion, s.nginxVersion
	if report.Cells, err = measureAll(ctx, s); err != nil {
		return err
	}
	if report.Open, err = measureOpen(ctx, s, report.Cells); err != nil {
		return err
	}
	report.compare()
	report.Goals = goals(report)
	if err := report.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeJSON(o.json, report), checkGoals(report.Goals, o.strict))
}

// serveEchoAt serves until ctx ends. The arguments are an address and the size of an answer in bytes.
func serveEchoAt(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("expected an address to listen on, and a size")
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	answer, err := answerOf(size)
	if err != nil {
		return err
	}
	return serveEcho(ctx, args[0], answer)
}

// answerOf makes an answer of HTTP of that many bytes.
func answerOf(size int) ([]byte, error) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: %07d\r\n\r\n"
	body := size - len(fmt.Sprintf(head, 0))
	if body < 0 || size > longest {
		return nil, fmt.Errorf("no answer has %d bytes", size)
	}
	return append(fmt.Appendf(nil, head, body), bytes.Repeat([]byte("x"), body)...), nil
}
