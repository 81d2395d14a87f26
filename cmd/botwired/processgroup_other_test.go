//go:build !unix

package main

import (
	"syscall"
	"testing"
)

// terminalTests are none: the system has no pseudo-terminals.
var terminalTests map[string]func(*testing.T, string)

// ownGroup does nothing: the system has no groups of processes.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup does nothing: a child without a group is killed by its test.
func killGroup(int) {}

// userSignal stands for a signal that the system does not have.
const userSignal = syscall.SIGTERM

// signalStop and signalContinue do not exist: their test is skipped.
const (
	signalStop     = syscall.SIGTERM
	signalContinue = syscall.SIGTERM
)

// serviceTests are none: no service manager of the system passes sockets.
var serviceTests map[string]func(*testing.T, string)
