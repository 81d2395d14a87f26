package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/botwired/botwired/proof/machine"
)

// conversation has an agent hold the same conversation four times: directly with a memory service
// at a distance and through a botwired in front of it, and each once more with an outage in the
// middle. The agent does what BotWire's class for LangChain does: each message reads the whole
// history, appends to it and writes it back. Nobody thinks between the messages: all of the time is
// the memory's.
//
// In the outage, requests hang, as they do when the service's machine is gone. The agent gives up
// after a time, as BotWire's SDK does, and goes on with the next message: that one is lost.
func conversation(ctx context.Context, args []string) (err error) {
	o, err := parseConversationOptions(args)
	if err != nil {
		return err
	}
	l, err := newLab(o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r := &conversationReport{Machine: machine.This(ctx, o.dir), Options: o.conversationSettings, Client: "Go's net/http"}
	say := goClient(o.Timeout)
	if o.python != "" {
		say, r.Client = pythonClient(o.python, o.script), "BotWire's Python SDK"
	}
	progress := newProgress(os.Stderr)
	defer progress.end()
	for _, run := range []*held{{Through: false}, {Through: true}, {Through: false, Outage: o.Outage}, {Through: true, Outage: o.Outage}} {
		progress.show("%s", run.name())
		if err := run.hold(ctx, l, o, say); err != nil {
			return fmt.Errorf("%s: %w", run.name(), err)
		}
		r.Runs = append(r.Runs, run)
	}
	progress.end()
	if err := r.print(os.Stdout); err != nil {
		return err
	}
	return errors.Join(writeJSON(o.json, r), r.plot(o.svg), r.check())
}

// conversationSettings are the settings that the figures depend on.
type conversationSettings struct {
	Messages int           `json:"messages"`
	Latency  time.Duration `json:"latency"` // ns; of the memory service
	Outage   time.Duration `json:"outage"`  // ns
	Timeout  time.Duration `json:"timeout"` // ns; after which the agent gives up
	Quota    int           `json:"quota"`   // writes a day
}

type conversationOptions struct {
	conversationSettings
	program, dir, json, svg, python, script string
}

// sdkTimeout is how long BotWire's SDK waits for an answer.
const sdkTimeout = 10 * time.Second

func parseConversationOptions(args []string) (*conversationOptions, error) {
	o := &conversationOptions{}
	flags := flag.NewFlagSet("bench conversation", flag.ContinueOnError)
	flags.IntVar(&o.Messages, "messages", 200, "how many messages")
	flags.DurationVar(&o.Latency, "latency", 50*time.Millisecond, "how far away the memory service is")
	flags.DurationVar(&o.Outage, "outage", 30*time.Second, "how long the service is gone in the middle")
	flags.IntVar(&o.Quota, "quota", 1000, "how many writes a day the service takes")
	flags.StringVar(&o.python, "python", "", "a Python that has BotWire's SDK; without it, a client in Go does the same")
	flags.StringVar(&o.script, "script", "proof/bench/conversation.py", "what that Python runs")
	flags.StringVar(&o.program, "program", "bin/botwired", "the botwired to measure")
	flags.StringVar(&o.dir, "dir", "bin", "folder for the daemon's data, on the disk to measure")
	flags.StringVar(&o.json, "json", "bin/conversation.json", "file for the figures in JSON")
	flags.StringVar(&o.svg, "svg", "docs/conversation.svg", "file for the picture")
	quick := flags.Bool("quick", false, "a short conversation, to see that everything works; its figures mean nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.Timeout = sdkTimeout
	if *quick {
		o.Messages, o.Latency, o.Outage, o.Timeout = 20, 5*time.Millisecond, 500*time.Millisecond, 200*time.Millisecond
	}
	if o.Messages < 2 || o.Latency < 0 || o.Outage <= 0 || o.Quota < 1 || flags.NArg() > 0 {
		return nil, errors.New("expected two messages at least, an outage, a quota and no argument")
	}
	return o, nil
}
