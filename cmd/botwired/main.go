package main

import (
	"context"
	"io"
	"log"
	"os"
)

func main() {
	// What net/http's client has to say goes to the standard logger, and quotes what
	// upstream sent, which may hold a value.
	log.SetOutput(io.Discard)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
