package cluster

import (
	"testing"

	"go.uber.org/goleak"
)

// The server in this process leaves two goroutines of its own where a stream is made while it stops.
const serversOwn = "github.com/nats-io/nats-server/v2/server"

func TestMain(m *testing.M) {
	ServeIfAsked()
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(serversOwn+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(serversOwn+"/ats.Register.func1"),
	)
}
