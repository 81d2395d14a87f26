package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/sse"
)

// following runs a test with a follower of a daemon whose streams are made by streams, one after
// the other; after the last, nobody answers. In the bubble, waits cost nothing.
func following(t *testing.T, test func(*testing.T, *follower), streams ...http.HandlerFunc) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		loaded, err := config.Load(config.Sources{Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := newClient(loaded)
		if err != nil {
			t.Fatal(err)
		}
		l := pipe.Listen()
		c.dial = func(ctx context.Context) (net.Conn, error) {
			if len(streams) == 0 {
				return nil, errors.New("connection refused")
			}
			return l.Dial(ctx)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next := streams[0]
			streams = streams[1:]
			next(w, r)
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		test(t, &follower{client: c, request: request{method: http.MethodGet, path: surface("events")}})
		if err := errors.Join(server.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		<-ended
	})
}

// says makes a stream of parts, each a time after the one before.
func says(pause time.Duration, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", sse.ContentType)
		w.WriteHeader(http.StatusOK)
		to := http.NewResponseController(w)
		for _, part := range parts {
			if _, err := io.WriteString(w, part); err != nil || to.Flush() != nil {
				return
			}
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
		}
	}
}

// refuses answers with a status.
func refuses(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"detail":"no"}`)
	}
}

// A follower goes on after the last event it has seen, and tries until the daemon refuses it.
func TestFollowing(t *testing.T) {
	var resumes, visited []string
	var lost []error
	opened := 0
	remember := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			resumes = append(resumes, r.Header.Get("Last-Event-ID"))
			next(w, r)
		}
	}
	following(t, func(t *testing.T, f *follower) {
		f.visit = func(e sse.Event) error {
			visited = append(visited, e.Name+" "+string(e.Data))
			return nil
		}
		f.lost = func(err error) error { lost = append(lost, err); return nil }
		f.opened = func() { opened++ }
		err := f.run(t.Context())
		if status := (*statusError)(nil); !errors.As(err, &status) || status.status != http.StatusNotFound {
			t.Errorf("it ends with %v", err)
		}
	},
		remember(says(time.Second, "id: p-0\n\n", "id: p-1\nevent: pending\ndata: {}\n\n", "id: p-7\n\n", "id: p-8\ndata: cut")),
		remember(refuses(http.StatusServiceUnavailable)),
		remember(says(time.Second, "event: reset\ndata: {}\n\n")),
		remember(refuses(http.StatusNotFound)),
	)
	if diff := cmp.Diff([]string{"", "p-7", "p-7", "p-7"}, resumes); diff != "" {
		t.Errorf("it resumes after (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pending {}", "reset {}"}, visited); diff != "" {
		t.Errorf("it visits (-want +got):\n%s", diff)
	}
	if len(lost) != 3 || !errors.Is(lost[0], errStreamEnded) || !strings.Contains(lost[1].Error(), "503") || !errors.Is(lost[2], errStreamEnded) || opened != 2 {
		t.Errorf("it was lost by %q, and opened %d times", lost, opened)
	}
}

// A daemon that is not there is an error at first. Later it may come back, until lost has enough.
func TestFollowingWhatIsNotThere(t *testing.T) {
	enough := errors.New("enough")
	following(t, func(t *testing.T, f *follower) {
		f.lost = func(error) error { t.Error("lost before it began"); return nil }
		if err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot reach botwired at") {
			t.Errorf("it ends with %v", err)
		}
	})
	following(t, func(t *testing.T, f *follower) {
		began, tries := time.Now(), 0
		f.visit = func(sse.Event) error { return nil }
		f.lost = func(error) error {
			if tries++; tries == 6 {
				return enough
			}
			return nil
		}
		if err := f.run(t.Context()); !errors.Is(err, enough) {
			t.Errorf("it ends with %v", err)
		}
		if took := time.Since(began); took != (500+1000+2000+4000+5000)*time.Millisecond {
			t.Errorf("six tries take %s", took)
		}
	}, says(0))
}

func TestFollowingEnds(t *testing.T) {
	following(t, func(t *testing.T, f *follower) {
		enough := errors.New("enough")
		f.visit = func(sse.Event) error { return enough }
		if err := f.run(t.Context()); err != enough { //nolint:errorlint // as it was
			t.Errorf("it ends with %v", err)
		}
	}, says(time.Hour, "data: x\n\n"))
	following(t, func(t *testing.T, f *follower) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f.visit = func(sse.Event) error { return nil }
		if err := f.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
	}, says(10*time.Second, strings.Split(strings.Repeat(": alive\n\n|", 100), "|")...))
	following(t, func(t *testing.T, f *follower) {
		if err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), "another program than botwired") {
			t.Errorf("it ends with %v", err)
		}
	}, refuses(http.StatusOK))
}

// A stream that shows no sign of life is given up, and one that lives is not.
func TestFollowingInSilence(t *testing.T) {
	following(t, func(t *testing.T, f *follower) {
		began := time.Now()
		f.visit = func(sse.Event) error { return nil }
		f.lost = func(err error) error { return err }
		if err := f.run(t.Context()); !errors.Is(err, errSilent) || time.Since(began) != 9*15*time.Second+streamSilence {
			t.Errorf("it ends after %s with %v", time.Since(began), err)
		}
	}, says(15*time.Second, append(strings.Split(strings.Repeat(": alive\n\n|", 10), "|"), strings.Split(strings.Repeat("|", 9), "|")...)...))
}
