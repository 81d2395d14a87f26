package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// openPage follows a daemon's events, as a page that is open does, while a cell is measured. It
// fails the cell if no event has come by its end.
func openPage(ctx context.Context, on *subject, wantsEvents bool) (*subject, error) {
	following, leave := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(following, http.MethodGet, "http://"+on.address+"/_botwired/events", http.NoBody)
	if err != nil {
		leave()
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("events: HTTP %d", resp.StatusCode), resp.Body.Close())
	}
	if err != nil {
		leave()
		return nil, err
	}
	received := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, resp.Body) // until the page is closed
		_ = resp.Body.Close()
		received <- n
	}()
	check := on.done
	on.done = func(ctx context.Context) error {
		leave()
		var err error
		if n := <-received; wantsEvents && n < leastEvents {
			err = fmt.Errorf("the page has received %d bytes of events", n)
		}
		if check != nil {
			err = errors.Join(err, check(ctx))
		}
		return err
	}
	return on, nil
}

// leastEvents is less than any event takes, with what a stream begins with.
const leastEvents = 100

// paged is a contender whose page is open.
func paged(
	plain func(context.Context, *stage) (*subject, error), wantsEvents bool,
) func(context.Context, *stage) (*subject, error) {
	return func(ctx context.Context, s *stage) (*subject, error) {
		on, err := plain(ctx, s)
		if err != nil {
			return nil, err
		}
		return openPage(ctx, on, wantsEvents)
	}
}
