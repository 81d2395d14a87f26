package mcp

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"

	"github.com/botwired/botwired/internal/wire"
)

// stateMember is the member of a result that tells the state of the memory, in the daemon's own words.
const stateMember = "memory_state"

const stateAbout = "the state of the memory, there only if something is wrong that you should know"

type stateKey struct{}

// listen returns a context for a call's requests, and the newest state of the memory that their answers have carried;
// empty if none has.
func listen(ctx context.Context) (within context.Context, state func() string) {
	var heard atomic.Value
	return context.WithValue(ctx, stateKey{}, &heard), func() string {
		text, _ := heard.Load().(string)
		return text
	}
}

// listening notes for a call what the daemon's answers tell.
type listening struct{ http.RoundTripper }

func (l listening) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if heard, ok := r.Context().Value(stateKey{}).(*atomic.Value); ok && err == nil {
		if state := answer.Header.Get(wire.StateHeader); state != "" {
			heard.Store(state)
		}
	}
	return answer, err
}

// withState adds the state to a result, which is an object, before all else: the agent is to know it first.
func withState(result []byte, state string) []byte {
	if state == "" {
		return result
	}
	text, _ := encode(state) // strings always encode
	head := append([]byte(`{"`+stateMember+`":`), text...)
	if !bytes.Equal(result, []byte("{}")) {
		head = append(head, ',')
	}
	return append(head, result[1:]...)
}
