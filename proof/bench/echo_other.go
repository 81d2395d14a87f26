//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
)

// serveEcho answers each read with the same bytes until ctx ends.
func serveEcho(ctx context.Context, address string, answer []byte) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			for in := make([]byte, 64<<10); ; {
				if _, err := conn.Read(in); err != nil {
					return
				}
				if _, err := conn.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}
