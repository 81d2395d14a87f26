package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The terminal's own words: another screen than that of the shell, without a cursor; back to the
// shell's; and home, on which a frame is drawn over the one before.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeScreen  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// watch shows an answer of the daemon on the terminal at once and at every tick, until ctx ends.
// It fails if the first request does; later, it shows why there is no answer, and goes on.
func (f *settingFlags) watch(ctx context.Context, r request, print func(io.Writer, *client, []byte) error) error {
	p := f.process
	if !p.isTerminal(p.stdout) {
		return usagef("--watch draws on a terminal, and standard output is none: expected no --watch")
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	frame := func() (string, error) {
		body, err := c.do(ctx, r)
		if err != nil {
			return "", err
		}
		return p.frame(func(w io.Writer) error { return print(w, c, body) })
	}
	shown, err := frame()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	tick, stopTicks := p.ticks()
	defer stopTicks()
	if _, err := io.WriteString(p.stdout, enterScreen); err != nil {
		return err
	}
	defer func() { fmt.Fprint(p.stdout, leaveScreen) }()
	for {
		if _, err := io.WriteString(p.stdout, shown); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if shown, err = frame(); err != nil {
			shown = homeScreen + p.palette(p.stdout).red(printable(err.Error())) + clearLine + "\n" + clearBelow
		}
	}
}

// frame draws what print prints, as far as the terminal has room for it.
func (p *process) frame(print func(io.Writer) error) (string, error) {
	var b bytes.Buffer
	columns, rows := p.size(p.stdout)
	if err := print(&screen{&b, p.palette(p.stdout), columns, p.now}); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	lines = lines[:min(len(lines), rows-1)]
	return homeScreen + strings.Join(lines, clearLine+"\n") + clearLine + clearBelow, nil
}
