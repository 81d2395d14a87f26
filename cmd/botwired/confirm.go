package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errDeclined is the error of a command whose question was not answered with a yes.
var errDeclined = errors.New("nothing is changed")

// mayAsk is a usage error where a command has to ask first and nobody can reply: without --yes and without
// a terminal. does says why it asks.
func (p *process) mayAsk(yes bool, does string) error {
	if yes || p.isTerminal(p.stdin) && p.isTerminal(p.stderr) {
		return nil
	}
	return usagef("this %s, and there is no terminal to ask at: expected --yes too", does)
}

// longestReply bounds what is read of a reply, in bytes.
const longestReply = 1000

// confirm asks at the terminal. Anything but y or yes is a no, and then its error is errDeclined.
func (p *process) confirm(ctx context.Context, question string) error {
	fmt.Fprint(p.stderr, printable(question)+" [y/N] ")
	replied := make(chan string, 1)
	go func() { // which a terminal holds up until the process ends, if nobody replies
		reply, _ := bufio.NewReader(io.LimitReader(p.stdin, longestReply)).ReadString('\n')
		replied <- reply
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return ctx.Err()
	case reply := <-replied:
		if !strings.HasSuffix(reply, "\n") {
			fmt.Fprintln(p.stderr)
		}
		if reply = strings.ToLower(strings.TrimSpace(reply)); reply != "y" && reply != "yes" {
			return errDeclined
		}
		return nil
	}
}
