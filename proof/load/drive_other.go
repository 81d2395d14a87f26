//go:build !linux

package load

import "context"

func drive(ctx context.Context, o *Options) (*Result, error) { return driveGoroutines(ctx, o) }
