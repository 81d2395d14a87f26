package cluster

import "syscall"

// diesWithParent ends a child when this process ends.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
