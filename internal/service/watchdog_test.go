package service_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/service"
)

// Watch calls alive every half of the timeout, not while a check fails or hangs, and again soon after
// that.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 16 * time.Second
		var signs []time.Duration
		var failures int
		began := time.Now()
		at := func() time.Duration { return time.Since(began) }
		ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
		defer cancel()
		service.Watch(ctx, within, func(ctx context.Context) error {
			switch {
			case at() > 20*time.Second && at() < 30*time.Second:
				return errors.New("dead")
			case at() > 50*time.Second && at() < 55*time.Second:
				<-ctx.Done() // it hangs
				return ctx.Err()
			}
			return nil
		}, func() { signs = append(signs, at()) }, func(error) { failures++ })
		want := []time.Duration{0, 8, 16, 30, 38, 46, 60, 68, 76}
		for i := range want {
			want[i] *= time.Second
		}
		if diff := cmp.Diff(want, signs); diff != "" || failures != 2 {
			t.Errorf("%d failures, signs of life (-want +got):\n%s", failures, diff)
		}
	})
}

func TestNobodyWatches(t *testing.T) {
	never := func() { t.Error("a sign of life for nobody") }
	service.Watch(t.Context(), 0, func(context.Context) error { return nil }, never, func(error) {})
}
