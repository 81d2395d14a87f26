package main

import (
	"context"
	"io"
	"log"
	"os"
	"runtime"
)

func main() {
	// What net/http's client has to say goes to the standard logger, and quotes what
	// upstream sent, which may hold a value.
	log.SetOutput(io.Discard)
	if os.Getenv("GOMAXPROCS") == "" {
		// While writes come in, one goroutine is waiting for the disk nearly all the time,
		// and the runtime takes a while to notice each time that it only waits.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
