package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// The measured daemon has this file besides its own: at SIGALRM it writes to stderr what it has
// allocated since its start, to the object. The daemon's metrics lack the last few thousand objects.
func init() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGALRM)
	go func() {
		for range asked {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Fprintf(os.Stderr, "{\"msg\":\"heap\",\"objects\":%d,\"bytes\":%d}\n", m.Mallocs, m.TotalAlloc)
		}
	}()
}
