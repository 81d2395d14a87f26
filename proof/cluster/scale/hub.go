package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/botwired/botwired/proof/loopback"
)

// hub is BotWire's memory service with SQLite: "botwired selfhost".
type hub struct {
	url string
	cmd *exec.Cmd
}

// hub starts one with an empty database.
func (l *lab) hub(ctx context.Context) (*hub, error) {
	address, err := loopback.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	l.number++
	dir := filepath.Join(l.dir, fmt.Sprintf("hub%d", l.number))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), l.program, "selfhost", "--listen", address, "--db", filepath.Join(dir, "memory.db")) //nolint:gosec // the program that the caller built
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &hub{"http://" + address, cmd}
	l.hubs = append(l.hubs, h)
	return h, h.answers(ctx)
}

// answers waits until the service does.
func (h *hub) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/health", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (h *hub) stop() error {
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return h.cmd.Wait()
}
