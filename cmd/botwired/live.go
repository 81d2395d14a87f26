package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
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

// liveView is a view on the terminal of a process, which it draws again and again.
type liveView struct {
	*process
	draw func(context.Context, *screen) error
}

// run draws at once and at every tick, until ctx ends or the person types q. It fails if the
// first frame does; later, it shows why there is none, and goes on.
func (p *liveView) run(ctx context.Context) error {
	frame, err := p.frame(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore, err := p.readKeys(cancel)
	if err != nil {
		return err
	}
	defer restore()
	tick, stopTicks := p.ticks()
	defer stopTicks()
	if _, err := io.WriteString(p.stdout, enterScreen); err != nil {
		return err
	}
	defer func() { fmt.Fprint(p.stdout, leaveScreen) }()
	for {
		if _, err := io.WriteString(p.stdout, frame); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if frame, err = p.frame(ctx); err != nil {
			frame = homeScreen + p.palette(p.stdout).red(printable(err.Error())) + clearLine + "\r\n" + clearBelow
		}
	}
}

// frame draws one frame, which is no longer than the terminal.
func (p *liveView) frame(ctx context.Context) (string, error) {
	var b bytes.Buffer
	columns, rows := p.size(p.stdout)
	err := p.draw(ctx, &screen{&b, p.palette(p.stdout), columns, rows, p.now})
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	lines = lines[:min(len(lines), rows-1)]
	return homeScreen + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow, nil
}

// readKeys calls quit at q, Ctrl-C and the end of the keys. restore gives the terminal back as it
// was. A reader of keys stays until the process ends, or somebody types.
func (p *liveView) readKeys(quit func()) (restore func(), err error) {
	file, ok := p.stdin.(*os.File)
	if !ok || !p.isTerminal(p.stdin) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal gives no keys: %w", err)
	}
	go func() {
		key := make([]byte, 1)
		for {
			if n, err := file.Read(key); err != nil || n == 1 && strings.ContainsRune("qQ\x03\x04", rune(key[0])) {
				quit()
				return
			}
		}
	}()
	return func() { _ = term.Restore(int(file.Fd()), before) }, nil // the shell resets it, too
}

// watch shows an answer of the daemon live.
func (f *settingFlags) watch(ctx context.Context, r request, print func(io.Writer, *client, []byte) error) error {
	if !f.process.isTerminal(f.process.stdout) {
		return usagef("--watch draws on a terminal, and standard output is none: expected no --watch")
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	view := &liveView{f.process, func(ctx context.Context, s *screen) error {
		body, err := c.do(ctx, r)
		if err != nil {
			return err
		}
		return print(s, c, body)
	}}
	err = view.run(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
