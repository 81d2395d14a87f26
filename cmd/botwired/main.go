package main

import (
	"context"
	"io"
	"log"
	"os"
)

func main() {
	// net/http's client logs errors to the standard logger, and quotes upstream, which may include a value.
	log.SetOutput(io.Discard)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
