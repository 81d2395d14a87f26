package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The file that the measured daemon has besides its own, and where it stands among them.
const (
	heapCounts = "proof/cost/testdata/heapcounts.go"
	amongOwn   = "cmd/botwired/heapcounts.go"
)

// build builds the daemon in a folder, with one file more. The tree itself is not changed. It runs in the
// root of the project.
func build(ctx context.Context, dir string) (program string, err error) {
	from, err := filepath.Abs(heapCounts)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(amongOwn)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {to: from}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, overlay, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "botwired")
	if out, err := exec.CommandContext(ctx, "go", "build", "-overlay", name, "-o", program, "./cmd/botwired").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the daemon: %w\n%s", err, out)
	}
	return program, nil
}
