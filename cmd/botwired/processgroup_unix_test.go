//go:build unix

package main

import "syscall"

// ownGroup puts a child process into a group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends all processes of a child's group.
func killGroup(child int) { _ = syscall.Kill(-child, syscall.SIGKILL) }

// userSignal is a signal for whatever a program likes.
const userSignal = syscall.SIGUSR1

// signalStop and signalContinue have a process stand still and go on.
const (
	signalStop     = syscall.SIGSTOP
	signalContinue = syscall.SIGCONT
)
