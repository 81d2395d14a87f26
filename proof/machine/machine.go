package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine says where and when a run took its figures. Unknown fields are empty.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Disk   string `json:"disk"`
	Go     string `json:"go"`
	Commit string `json:"commit"`
	Date   string `json:"date"`
	Load   string `json:"load"` // before the start, by other programs
}

func thisMachine(ctx context.Context, dir string) machine {
	return machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(),
		Kernel: strings.TrimSpace(runtime.GOOS + " " + firstLine(readFile("/proc/sys/kernel/osrelease"))),
		Disk:   fileSystem(ctx, dir),
		Go:     runtime.Version(),
		Commit: output(ctx, "git", "describe", "--always", "--dirty"),
		Date:   time.Now().UTC().Format(time.DateOnly),
		Load:   strings.Join(firstWords(readFile("/proc/loadavg"), 3), " "),
	}
}

func cpuModel() string {
	for line := range strings.Lines(readFile("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// fileSystem returns the kind of a folder's file system.
func fileSystem(ctx context.Context, dir string) string {
	words := strings.Fields(output(ctx, "df", "-PT", dir))
	if len(words) == 0 {
		return ""
	}
	return words[min(1, len(words)-1)]
}

// output returns the last line of a program's output, or "" if the program fails.
func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

func readFile(name string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(content)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func firstWords(s string, n int) []string {
	words := strings.Fields(s)
	return words[:min(n, len(words))]
}
