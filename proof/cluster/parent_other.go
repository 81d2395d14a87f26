//go:build !linux

package cluster

import "syscall"

func diesWithParent() *syscall.SysProcAttr { return nil }
