package flush_test

import (
	"errors"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
)

// When the wait is over, one read tests a throttled namespace. Any answer from upstream itself except
// 429 ends the wait, even a refusal.
func TestThrottlingEndsWithUpstreamsOwnWord(t *testing.T) {
	for name, row := range map[string]struct {
		then  reply
		asked int // number of requests of five later reads
	}{
		"an answer": {reply{}, 5},
		"a refusal": {detail(403), 5},
		"throttled": {throttled("60"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
				read := func() error {
					_, err := r.Get(t.Context(), key("k"), false)
					time.Sleep(time.Millisecond)
					return err
				}
				f.answer = func(call) reply { return throttled("7") }
				for range 5 {
					var said *upstream.ServiceAnswer
					if err := read(); !errors.As(err, &said) {
						t.Errorf("%v, want upstream's answer", err)
					}
				}
				if n := len(f.requests(anything)); n != 1 {
					t.Errorf("%d requests, want one", n)
				}
				time.Sleep(7 * time.Second)
				f.set(func(f *fake) { f.answer, f.calls = func(call) reply { return row.then }, nil })
				for range 5 {
					_ = read()
				}
				if n := len(f.requests(anything)); n != row.asked {
					t.Errorf("%d requests afterwards, want %d", n, row.asked)
				}
			})
		})
	}
}

// Without a Retry-After, the wait grows by a backoff.
func TestThrottledReadsBackOff(t *testing.T) {
	readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
		f.answer = func(call) reply { return detail(429) }
		for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if _, err := r.Get(t.Context(), key("k"), true); err == nil {
				t.Fatal("a throttled read is answered")
			}
		}
		if n := len(f.requests(anything)); n < 100 || n > 400 {
			t.Errorf("%d requests in an hour, want one in about 20 s", n)
		}
	})
}

// A namespace whose writes have used up the daily quota can be read within the hour.
func TestReadsDoNotWaitForADaysQuota(t *testing.T) {
	readers(t, func(t *testing.T, f *fake, r *upstream.Reader) {
		f.answer = func(call) reply { return throttled("86400") }
		read := func() { _, _ = r.Get(t.Context(), key("k"), false) }
		read()
		time.Sleep(time.Hour - time.Second)
		read()
		if n := len(f.requests(anything)); n != 1 {
			t.Errorf("%d requests within the hour, want one", n)
		}
		time.Sleep(2 * time.Second)
		read()
		if n := len(f.requests(anything)); n != 2 {
			t.Errorf("%d requests, want another after the hour", n)
		}
	})
}
