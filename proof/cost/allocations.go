package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/botwired/botwired/internal/child"
)

// heap is what a daemon has allocated since its start, by its own metrics.
type heap struct{ objects, bytes float64 }

// readHeap asks a daemon for its metrics, which itself costs the daemon allocations.
func readHeap(ctx context.Context, client *http.Client, url string) (h heap, err error) {
	status, answer, err := child.Ask(ctx, client, http.MethodGet, url+"/_botwired/metrics", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("metrics: %d %.200s", status, answer)
	}
	if err != nil {
		return h, err
	}
	for name, into := range map[string]*float64{"go_memstats_mallocs_total": &h.objects, "go_memstats_alloc_bytes_total": &h.bytes} {
		_, after, found := strings.Cut(string(answer), "\n"+name+" ")
		text, _, _ := strings.Cut(after, "\n")
		if *into, err = strconv.ParseFloat(text, 64); err != nil || !found {
			return h, fmt.Errorf("the daemon's metrics have no %s: %w", name, err)
		}
	}
	return h, nil
}

// allocated runs a batch and returns what the daemon allocates for each request.
func (b batch) allocated(ctx context.Context, url string) (objects, bytes float64, err error) {
	client := child.NewClient()
	defer client.CloseIdleConnections()
	var earlier, before, after heap
	read := func(into *heap) (err error) {
		*into, err = readHeap(ctx, client, url)
		return err
	}
	begin := func() error { return errors.Join(read(&earlier), read(&before)) }
	end := func() error { return read(&after) }
	if err := b.run(ctx, begin, end); err != nil {
		return 0, 0, err
	}
	// The last look at the metrics costs as much as the one before.
	perRequest := func(earlier, before, after float64) float64 {
		return max(0, after-before-(before-earlier)) / float64(b.requests())
	}
	return perRequest(earlier.objects, before.objects, after.objects), perRequest(earlier.bytes, before.bytes, after.bytes), nil
}
