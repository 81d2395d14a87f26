//go:build !unix

package main

import (
	"syscall"
	"testing"
)

// terminalTests is empty: the system has no pseudo-terminals.
var terminalTests map[string]func(*testing.T, string)

// ownGroup does nothing: the system has no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup does nothing: without a group, the test kills its child.
func killGroup(int) {}

// userSignal replaces a signal that the system does not have.
const userSignal = syscall.SIGTERM

// signalStop and signalContinue do not exist here: their test is skipped.
const (
	signalStop     = syscall.SIGTERM
	signalContinue = syscall.SIGTERM
)

// serviceTests is empty: the system has no service manager that passes sockets.
var serviceTests map[string]func(*testing.T, string)
