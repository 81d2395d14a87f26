package proxy_test

import "time"

// The memory's bounds, for the tests from outside.
const (
	usedAtMost         = 1024
	listersAtOnce      = 4
	prefetchesAtOnce   = 4
	refusalsPassed     = 4
	changesAtOnce      = 4
	changesKept        = 10_000
	pendingImportsMost = 1000
	maxListLimit       = 1000
	// beforeAll is the time, in Unix seconds, of a copy that gives way.
	beforeAll = 1
)

// copiedValue is the size of the largest answer that the fast path copies.
const copiedValue = 16 << 10

// The surface's bounds and texts.
const (
	countedAtMost  = 20_000
	historyLength  = 360
	historyStep    = 10 * time.Second
	eventsKept     = 4096
	eventsReaders  = 32
	eventsResume   = time.Minute
	monitorKept    = 1024
	monitorReaders = 8
	monitorName    = 256
	heartbeat      = 15 * time.Second
	streamPace     = 50 * time.Millisecond
	writePatience  = 30 * time.Second
	resetPause     = time.Second
	importTime     = 10 * time.Second
	mcpTime        = 2 * time.Minute
	indexPatience  = time.Second
	agentLength    = 120
	linesType      = "application/jsonl"
	eventChanged   = "changed"
	eventUpstream  = "upstream"
	eventReset     = "reset"
	eventRequest   = "request"
	eventSkipped   = "skipped"
	resetRestarted = "another process of the daemon sent the events until then"
	resetGone      = "the events after that are not kept any more"
	resetSlow      = "there were more events than this stream takes"
)
