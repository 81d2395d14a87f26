package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// kept is a conversation that an adapter has kept.
type kept struct {
	historyAnswer
	Writes int `json:"writes"` // that upstream has carried out
	Bytes  int `json:"bytes"`  // of the bodies of these
}

// historyAnswer is what an adapter's script prints.
type historyAnswer struct {
	Adapter  string  `json:"adapter"`  // its name for people
	Versions string  `json:"versions"` // of the packages
	Wall     float64 `json:"wall"`     // seconds, of all messages, without the thought
	Slowest  float64 `json:"slowest"`  // seconds, of one message
	Messages int     `json:"messages"` // that the script has read at last
}

// holding is how a conversation is held.
type holding struct {
	through bool          // botwired
	think   time.Duration // between two messages
}

// hold holds the conversation with servers of its own, and has another process read it upstream.
func (k *kept) hold(ctx context.Context, l *lab, o *historiesOptions, name string, how holding) (err error) {
	service, err := l.start(ctx, l.upstream(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.remove()) }()
	far, err := openDistance(ctx, service.address, o.Latency, o.Quota)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.close()) }()
	address := far.address
	var daemon *server
	if how.through {
		if daemon, err = l.start(ctx, l.sidecar(far.address, o.Quota)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, daemon.remove()) }()
		address = daemon.address
	}
	answer, err := o.script(ctx, name, address, o.Messages, how.think)
	if err != nil {
		return err
	}
	if k.historyAnswer = *answer; daemon != nil {
		if _, err := ask(ctx, http.MethodPost, daemon.address, "/_botwired/flush?now=true"); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
	if err := far.finish(ctx); err != nil {
		return err
	}
	for _, c := range far.arrivals() {
		k.Writes++
		k.Bytes += c.bytes
	}
	return o.verify(ctx, name, service.address)
}

// verify has another process read the conversation where upstream keeps it.
func (o *historiesOptions) verify(ctx context.Context, name, service string) error {
	there, err := o.script(ctx, name, service, 0, 0)
	if err == nil && there.Messages != o.Messages {
		err = fmt.Errorf("upstream has %d of %d messages", there.Messages, o.Messages)
	}
	return err
}

// script has a script add so many messages to the conversation, and read it.
func (o *historiesOptions) script(ctx context.Context, name, address string, messages int, think time.Duration) (*historyAnswer, error) {
	file := filepath.Join(o.scripts, name+".py")
	cmd := exec.CommandContext(ctx, o.python, file, strconv.Itoa(messages), fmt.Sprint(think.Seconds()))
	cmd.Env = []string{"BOTWIRE_URL=http://" + address, "PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + o.packages}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", file, err, complaints.Bytes())
	}
	answer := &historyAnswer{}
	if err := json.Unmarshal(out, answer); err != nil {
		return nil, fmt.Errorf("%s: %w in %q", file, err, out)
	}
	return answer, nil
}
