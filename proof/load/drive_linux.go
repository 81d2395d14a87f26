package load

import "context"

func drive(ctx context.Context, o *Options) (*Result, error) {
	if o.Goroutines {
		return driveGoroutines(ctx, o)
	}
	return driveThread(ctx, o)
}
