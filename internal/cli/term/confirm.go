package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrDeclined is the error of a command whose question was not answered with a yes.
var ErrDeclined = errors.New("nothing is changed")

// longestReply bounds what is read of a reply, in bytes.
const longestReply = 1000

// Confirm asks at the terminal. Anything but y or yes is a no, and then its error is ErrDeclined.
func (t *Terminal) Confirm(ctx context.Context, question string) error {
	fmt.Fprint(t.Stderr, Printable(question)+" [y/N] ")
	replied := make(chan string, 1)
	go func() { // which a terminal holds up until the process ends, if nobody replies
		reply, _ := bufio.NewReader(io.LimitReader(t.Stdin, longestReply)).ReadString('\n')
		replied <- reply
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(t.Stderr)
		return ctx.Err()
	case reply := <-replied:
		if !strings.HasSuffix(reply, "\n") {
			fmt.Fprintln(t.Stderr)
		}
		if reply = strings.ToLower(strings.TrimSpace(reply)); reply != "y" && reply != "yes" {
			return ErrDeclined
		}
		return nil
	}
}
