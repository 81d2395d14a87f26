package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
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
		case "keeper":
			return serveAt(ctx, args[1:], newKeeper())
		case "growth":
			return growth(ctx, args[1:])
		case "crowd":
			return crowd(ctx, args[1:])
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
	report := &report{Machine: thisMachine(ctx, o.dir), Options: o.settings}
	if report.Idle, err = measureIdle(ctx, l, o.Idle); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	s, err := openStage(ctx, l, o)
	if err != nil {
		return err
	}
	report.Redis = s.redisVersion
	if report.Cells, err = measureAll(ctx, s); err != nil {
		return err
	}
	report.compare()
	report.Goals = goals(report)
	if err := report.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeJSON(o.json, report), checkGoals(report.Goals, o.strict))
}
