package attach

import (
	"syscall"
	"unsafe"
)

// endedChild returns a child that has ended and that nobody has waited for, or 0, and leaves it so. Package syscall
// lacks waitid.
func endedChild() int {
	const pAll, wNoWait, wExited = 0, 0x01000000, 4
	var info [128]byte // siginfo_t: three ints, and then, aligned as a pointer, the id
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pAll, 0,
			uintptr(unsafe.Pointer(&info)), wExited|syscall.WNOHANG|wNoWait, 0, 0) //nolint:gosec // as waitid wants it
		switch errno {
		case 0:
			const word = unsafe.Sizeof(uintptr(0))
			return int(*(*int32)(unsafe.Pointer(&info[(12+word-1)&^(word-1)]))) //nolint:gosec // 0 if there is none
		case syscall.EINTR:
		default:
			return 0 // there are no children
		}
	}
}
