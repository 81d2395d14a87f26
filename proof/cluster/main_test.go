package cluster

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	ServeIfAsked()
	goleak.VerifyTestMain(m)
}
