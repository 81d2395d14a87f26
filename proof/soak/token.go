package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/tasks"
)

// endsWithin bounds how long a stream may go on whose token is gone. A busy machine is slow.
const endsWithin = 20 * time.Second

// tokens is the file with the daemon's token.
type tokens struct {
	file string

	mu      sync.Mutex
	now     string
	changed chan struct{} // closed when now is no longer the token
}

func newTokens(dir string) (*tokens, error) {
	t := &tokens{file: filepath.Join(dir, "token")}
	return t, t.change()
}

// change puts another token into the file.
func (t *tokens) change() error {
	next := rand.Text()
	if err := os.WriteFile(t.file+".new", []byte(next+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Rename(t.file+".new", t.file); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed != nil {
		close(t.changed)
	}
	t.now, t.changed = next, make(chan struct{})
	return nil
}

func (t *tokens) current() (token string, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, t.changed
}

func (t *tokens) token() string {
	token, _ := t.current()
	return token
}

// reload has the daemon read its files anew, with another token.
func (s *soak) reload() error {
	return errors.Join(s.tokens.change(), s.daemon.Load().Signal(syscall.SIGHUP))
}

// follow reads the events until ctx ends. A stream must end with its token.
func (s *soak) follow(ctx context.Context) {
	for ctx.Err() == nil {
		token, changed := s.tokens.current()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.stream(ctx, token)
		}()
		select {
		case <-ended:
			_ = tasks.Sleep(ctx, 100*time.Millisecond)
			continue
		case <-changed:
		}
		select {
		case <-ended:
		case <-time.After(endsWithin):
			s.load.wrong("a stream goes on %s after its token has gone", endsWithin)
			return
		}
	}
}

// stream reads one stream to its end.
func (s *soak) stream(ctx context.Context, token string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base()+"/_botwired/events", nil)
	if err != nil {
		s.load.wrong("events: %v", err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, answer.Body) // it breaks off with the daemon
	_ = answer.Body.Close()
}
