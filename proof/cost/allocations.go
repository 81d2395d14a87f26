package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/child"
)

// heap is what a daemon has allocated since its start.
type heap struct {
	Msg            string
	Objects, Bytes float64
}

// asks is the signal at which a daemon says it. Go has this one on every system.
const asks = syscall.SIGALRM

// answersWithin bounds how long a daemon may take to say what it has allocated. It ends a hang.
const answersWithin = time.Minute

// readHeap asks a daemon what it has allocated: see testdata/heapcounts.go.
func readHeap(ctx context.Context, p *child.Process) (heap, error) {
	seen := len(p.Lines())
	if err := p.Signal(asks); err != nil {
		return heap{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		for _, line := range p.Lines()[seen:] {
			var h heap
			if json.Unmarshal([]byte(line), &h) == nil && h.Msg == "heap" {
				return h, nil
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return heap{}, fmt.Errorf("the daemon does not say what it has allocated: %w:\n%s", ctx.Err(), p.Tail())
		}
	}
}

// allocated runs a batch and returns what the daemon allocates for each request.
func (b batch) allocated(ctx context.Context, p *child.Process) (objects, bytes float64, err error) {
	var earlier, before, after heap
	read := func(into *heap) (err error) {
		*into, err = readHeap(ctx, p)
		return err
	}
	begin := func() error { return errors.Join(read(&earlier), read(&before)) }
	if err := b.run(ctx, begin, func() error { return read(&after) }); err != nil {
		return 0, 0, err
	}
	// To say it costs the daemon some objects itself, each time as many.
	perRequest := func(earlier, before, after float64) float64 {
		return max(0, after-before-(before-earlier)) / float64(b.requests())
	}
	return perRequest(earlier.Objects, before.Objects, after.Objects), perRequest(earlier.Bytes, before.Bytes, after.Bytes), nil
}
