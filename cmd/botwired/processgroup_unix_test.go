//go:build unix

package main

import "syscall"

// ownGroup puts a child process into its own process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills all processes of a child's group.
func killGroup(child int) { _ = syscall.Kill(-child, syscall.SIGKILL) }

// userSignal is a signal without a fixed meaning.
const userSignal = syscall.SIGUSR1

// signalStop and signalContinue stop and continue a process.
const (
	signalStop     = syscall.SIGSTOP
	signalContinue = syscall.SIGCONT
)
