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
	opened, received := make(chan error, 1), make(chan int64, 1)
	go func() {
		n, err := follow(following, on.address, opened)
		if err != nil {
			opened <- err
		}
		received <- n
	}()
	if err := <-opened; err != nil {
		leave()
		return nil, err
	}
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

// follow reads a daemon's events until ctx ends, and returns how many bytes that were. It says on
// opened that they have begun, and nothing if it returns an error.
func follow(ctx context.Context, address string, opened chan<- error) (bytes int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/_botwired/events", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("events: HTTP %d", resp.StatusCode)
	}
	opened <- nil
	bytes, _ = io.Copy(io.Discard, resp.Body) // until the page is closed
	return bytes, nil
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
