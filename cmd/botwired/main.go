package main

import (
	"context"
	"io"
	"log"
	"os"
)

func main() {
	// net/http's client complains to the standard logger and quotes what upstream sent,
	// which may hold a value.
	log.SetOutput(io.Discard)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
