package proxy

import "time"

// The memory's bounds, which its tests from outside reach.
const (
	usedAtMost         = 1024
	listersAtOnce      = 4
	prefetchesAtOnce   = 4
	refusalsPassed     = 4
	changesAtOnce      = 4
	changesKept        = 10_000
	pendingImportsMost = 1000
	restoredAtOnce     = 100
	restorePause       = 5 * time.Second
	maxListLimit       = 1000
	// beforeAll is the time, in Unix seconds, of a copy that gives way.
	beforeAll = 1
)
