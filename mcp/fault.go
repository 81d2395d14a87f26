package mcp

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
)

// errInternal stands for a panic.
var errInternal = errors.New("a fault of botwired: its log says more")

// kindOf describes a panic without its value, unless the runtime made that.
func kindOf(p any) string {
	if fault, ok := p.(runtime.Error); ok {
		return fault.Error()
	}
	return fmt.Sprintf("%T", p)
}

func stack() string { return string(debug.Stack()) }

// refusedToConnect reports whether no connection came about, so that the daemon has not seen the
// request.
func refusedToConnect(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
