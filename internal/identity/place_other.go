//go:build !linux && !darwin && !windows

package identity

import (
	"os"
	"time"
)

func machineID() string { return "" }

func bootID() string { return "" }

func fileOf(info os.FileInfo) File { return File{modified: info.ModTime()} }

func sinceBoot() (time.Duration, bool) { return 0, false }
