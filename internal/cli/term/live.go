package term

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The terminal's escape sequences: switch to the alternate screen and hide the cursor, switch back, and
// go home, where a frame is drawn over the previous one.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeScreen  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// ShowLine replaces the current line on stderr; "" clears it. Without a terminal it shows nothing.
func (t *Terminal) ShowLine(line string) {
	if t.IsTerminal(t.Stderr) {
		fmt.Fprint(t.Stderr, "\r\x1b[K"+line)
	}
}

// ShowProgress shows a command's progress in one line on the terminal, at each tick for which text is
// not empty. Without a terminal it shows nothing. stop ends it and clears the line.
func (t *Terminal) ShowProgress(ctx context.Context, text func(context.Context) string) (stop func()) {
	if !t.IsTerminal(t.Stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	tick, stopTicks := t.Ticks()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			if line := text(ctx); line != "" {
				t.ShowLine(Printable(line))
			}
		}
	}()
	return func() {
		cancel()
		<-done
		stopTicks()
		t.ShowLine("")
	}
}

// Watch shows the output of print on the terminal, at once and at every tick, until ctx ends. It fails
// if the first print does. If a later print fails, Watch shows the error and goes on.
func (t *Terminal) Watch(ctx context.Context, print func(io.Writer) error) error {
	shown, err := t.frame(print)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	tick, stopTicks := t.Ticks()
	defer stopTicks()
	if _, err := io.WriteString(t.Stdout, enterScreen); err != nil {
		return err
	}
	defer func() { fmt.Fprint(t.Stdout, leaveScreen) }()
	for {
		if _, err := io.WriteString(t.Stdout, shown); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if shown, err = t.frame(print); err != nil {
			shown = homeScreen + t.PaletteOf(t.Stdout).Red(Printable(err.Error())) + clearLine + "\n" + clearBelow
		}
	}
}

func (t *Terminal) frame(print func(io.Writer) error) (string, error) {
	var b bytes.Buffer
	columns, rows := t.Size(t.Stdout)
	if err := print(&Screen{&b, t.PaletteOf(t.Stdout), columns, t.Now}); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	lines = lines[:min(len(lines), rows-1)]
	return homeScreen + strings.Join(lines, clearLine+"\n") + clearLine + clearBelow, nil
}
