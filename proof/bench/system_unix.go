//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// raiseOpenFiles lets this process and those that it starts open as many files as the system
// allows, and returns their number; 0 if the system does not say.
func raiseOpenFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	// Go's runtime has raised the limit already, but only for this process.
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // then the children keep the old one
	return uint64(limit.Cur)                             //nolint:unconvert // its type depends on the platform
}

// endTogether makes a command's processes end with it.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
