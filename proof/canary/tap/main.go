// Command tap stands between a daemon that seals all namespaces and its upstream. It passes every byte on, and
// ends with 1 if anything plain has come.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/botwired/botwired/proof/canary"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address for the daemon")
	to := flag.String("to", "", "the address of upstream")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	watch := &canary.Watch{}
	err := pass(ctx, watch, *listen, *to)
	fmt.Fprintln(os.Stderr, watch.Count())
	if err = errors.Join(err, watch.Err()); err != nil {
		fmt.Fprintln(os.Stderr, "tap:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

// pass serves until ctx ends, and passes connections on.
func pass(ctx context.Context, watch *canary.Watch, from, to string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", from)
	if err != nil {
		return err
	}
	listener = watch.Listener(listener)
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for {
		in, err := listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				return err
			}
			return nil
		}
		out, err := new(net.Dialer).DialContext(ctx, "tcp", to)
		if err != nil {
			_ = in.Close()
			continue
		}
		go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
		go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
	}
}
