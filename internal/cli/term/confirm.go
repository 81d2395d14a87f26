package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrDeclined is the error of a command whose question was not answered with yes.
var ErrDeclined = errors.New("nothing is changed")

// longestReply limits how much of a reply is read, in bytes.
const longestReply = 1000

// Confirm asks a question on the terminal. It returns ErrDeclined unless the reply is y or yes.
func (t *Terminal) Confirm(ctx context.Context, question string) error {
	fmt.Fprint(t.Stderr, Printable(question)+" [y/N] ")
	replied := make(chan string, 1)
	go func() { // without a reply, the read blocks until the process ends
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
