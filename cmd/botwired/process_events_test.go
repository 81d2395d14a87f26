package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/sse"
)

// stream collects the names and data of one of the child's event streams until it ends.
func (c *child) stream(ctx context.Context, target string) (told func() string, ended <-chan struct{}) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url("/_botwired/"+target), http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: c.client.Transport}).Do(req) // no time limit
	if err != nil {
		c.t.Fatal(err)
	}
	var mu sync.Mutex
	var text strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer resp.Body.Close()
		for from := sse.NewReader(resp.Body, 4<<20); ; {
			e, err := from.Next()
			if err != nil {
				return
			}
			mu.Lock()
			fmt.Fprintf(&text, "%s %s\n", e.Name, e.Data)
			mu.Unlock()
		}
	}()
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}, done
}

// The binary streams events about writes, upstream and requests. Open streams do not delay its stop.
func testEventsAndMonitor(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	events, eventsEnded := c.stream(ctx, "events")
	requests, requestsEnded := c.stream(ctx, "monitor")
	wait := func(told func() string, parts ...string) {
		t.Helper()
		eventually(t, func() error {
			text := told()
			for _, part := range parts {
				before, after, ok := strings.Cut(text, part)
				if !ok {
					return fmt.Errorf("%q does not come after %q", part, before)
				}
				text = after
			}
			return nil
		})
	}
	if err := c.put("n/k", "geheim"); err != nil {
		t.Fatal(err)
	}
	wait(events, "pending {", `"seq":1,"namespace":"n","key":"k","op":"put","bytes":6,"author":"`, "sent {", "settled {")
	wait(requests, "request {", `"method":"PUT","path":"/memory/n/k"`, `"status":200,"answered":"pending"`)
	if _, err := c.value("n/k"); err != nil {
		t.Fatal(err)
	}
	wait(requests, "request {", `"method":"GET","path":"/memory/n/k"`)
	service.down()
	if err := c.put("n/k2", "geheim"); err != nil {
		t.Fatal(err)
	}
	wait(events, "upstream {", `"state":"down"`)
	service.up()
	wait(events, "upstream {", `"state":"up"`)
	if text := events() + requests(); strings.Contains(text, "geheim") {
		t.Errorf("values are told: %s", text)
	}
	c.signal(os.Interrupt)
	c.wantExit(time.Minute, cli.ExitOK)
	<-eventsEnded
	<-requestsEnded
}
