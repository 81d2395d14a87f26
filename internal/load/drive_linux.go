package load

import "context"

func drive(ctx context.Context, o *Options) (*Result, error) { return driveThread(ctx, o) }
