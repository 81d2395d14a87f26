package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"unsafe"
)

// serveEcho answers each read with the same bytes from one thread of the system until ctx
// ends: one read and one write a request. Nothing that answers over TCP can cost less.
func serveEcho(ctx context.Context, address string, answer []byte) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { _ = syscall.Close(epoll) }() // nobody waits
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	go acceptInto(epoll, listener)
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	events, in := make([]syscall.EpollEvent, 256), make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := syscall.EpollWait(epoll, events, 100)
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("epoll: %w", err)
		}
		for i := range max(n, 0) {
			answerOne(int(events[i].Fd), in, answer)
		}
	}
	return nil
}

// acceptInto hands a listener's connections to epoll. The connections leave the hands of
// Go's runtime.
func acceptInto(epoll int, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // serveEcho has closed it
		}
		if raw, err := conn.(*net.TCPConn).SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				if taken, err := syscall.Dup(int(fd)); err == nil {
					_ = syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, taken, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(taken)})
				}
			})
		}
		_ = conn.Close() // the copy stays open
	}
}

// answerOne reads a request and answers it. It closes the connection if its caller is gone.
func answerOne(fd int, in, answer []byte) {
	n, err := transfer(syscall.SYS_READ, fd, in)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return
	}
	if err == nil && n > 0 {
		for rest := answer; len(rest) > 0; {
			switch n, err = transfer(syscall.SYS_WRITE, fd, rest); {
			case err == nil:
				rest = rest[n:]
			case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR): // the caller still reads the beginning
			default:
				_ = syscall.Close(fd) // the caller is gone
				return
			}
		}
		return
	}
	_ = syscall.Close(fd)
}

// transfer reads or writes without waiting, and without the work that Go's runtime does around a system
// call that may wait.
func transfer(call uintptr, fd int, b []byte) (int, error) {
	n, _, failed := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if failed != 0 {
		return 0, failed
	}
	return int(n), nil
}
