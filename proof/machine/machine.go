// Package machine says where a measurement took its figures, and when.
package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine is a machine at a time. Unknown fields are empty.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Disk   string `json:"disk"`
	Go     string `json:"go"`
	Commit string `json:"commit"`
	Date   string `json:"date"`
	Load   string `json:"load"` // before the start, by other programs
}

// This is the machine at the start of a measurement that has its data in dir.
func This(ctx context.Context, dir string) Machine {
	return Machine{
		CPU: Processor(), Cores: runtime.NumCPU(),
		Kernel: strings.TrimSpace(runtime.GOOS + " " + readFile("/proc/sys/kernel/osrelease")),
		Disk:   fileSystem(ctx, dir),
		Go:     runtime.Version(),
		Commit: Commit(ctx),
		Date:   time.Now().UTC().Format(time.DateOnly),
		Load:   firstThree(readFile("/proc/loadavg")),
	}
}

// String returns a machine on one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, %s, botwired %s, %s, load %s before",
		m.CPU, m.Cores, m.Kernel, m.Disk, m.Go, m.Commit, m.Date, m.Load)
}

// Commit is the commit of the working folder.
func Commit(ctx context.Context) string {
	return output(ctx, "git", "describe", "--always", "--dirty")
}

// Processor is the model of the processors, or their architecture.
func Processor() string {
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

func firstThree(s string) string {
	words := strings.Fields(s)
	return strings.Join(words[:min(3, len(words))], " ")
}
