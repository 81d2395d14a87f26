//go:build !linux

package child

import "syscall"

func diesWithParent() *syscall.SysProcAttr { return nil }
