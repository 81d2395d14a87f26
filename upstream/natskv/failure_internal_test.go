package natskv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/botwired/botwired/upstream"
)

// Whatever shows that the bucket has no leader, nothing was done, no bucket was refused, and the reason says what ends it.
func TestWithoutALeader(t *testing.T) {
	e := &Engine{opts: Options{Bucket: "memory"}}
	for _, err := range []error{
		&jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"},
		fmt.Errorf("look up: %w", nats.ErrNoResponders),
		jetstream.ErrNoStreamResponse,
	} {
		f := e.failure(&call{ctx: t.Context()}, err)
		if f.Verdict != upstream.Unsent || !f.Unreachable || f.Answered || !strings.Contains(f.Reason, "start another server") {
			t.Errorf("%v is %+v", err, f)
		}
	}
}
