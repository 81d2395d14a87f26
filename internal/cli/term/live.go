package term

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The terminal's escape sequences: change to a second screen and hide the cursor, change back, and move home,
// where a frame is drawn over the one before.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeScreen  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// ShowLine replaces the line of the terminal that stderr is; "" clears it.
func (t *Terminal) ShowLine(line string) { fmt.Fprint(t.Stderr, "\r\x1b[K"+line) }

// ShowProgress keeps a line on the terminal that says how far a command is, unless text is empty.
// Where there is no terminal it shows nothing. The returned function ends it and clears the line.
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

// Watch shows on the terminal what print prints, at once and at every tick, until ctx ends.
// It fails if the first print does; later, it shows why there is nothing to print, and goes on.
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

// frame draws what print prints, as far as the terminal has room for it.
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
