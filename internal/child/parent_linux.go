package child

import "syscall"

// diesWithParent makes a child end when this process ends.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
