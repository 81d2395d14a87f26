package main

import "log/slog"

const (
	maxConnections = 4096
	// minConnections is the least limit, even if there are too few descriptors: then the journal waits
	// for a free one.
	minConnections = 16
	// waitersShare is the part of the connections, 1 in waitersShare, whose requests may wait for long.
	waitersShare = 4
	// journalDescriptors are reserved for the journal's tables and logs, the embedded upstream's
	// database, and the files that every process has open.
	journalDescriptors = 256 + 64
)

// connectionBound returns how many connections callers may hold, so that enough descriptors are left
// for the journal and upstream. A forwarded request also takes a connection upstream. limit is the
// process's limit of open files; 0 means no limit.
func connectionBound(limit uint64, concurrency int, logger *slog.Logger) int {
	if limit == 0 { // guard 2.11
		return maxConnections
	}
	// Upstream gets one for each connection that may be open, including idle ones. At enough, the journal never
	// has to wait for a descriptor.
	reserved := uint64(journalDescriptors + 2*concurrency)
	enough := reserved + 2*minConnections
	if limit >= reserved+2*maxConnections {
		return maxConnections
	}
	bound := minConnections
	if limit > enough {
		bound = int(limit-reserved) / 2
	} else {
		logger.Warn("the limit of open files is low: raise it (ulimit -n, LimitNOFILE), or botwired may have to wait for a free descriptor",
			"limit", limit, "enough", enough)
	}
	logger.Info("the limit of open files bounds the connections of callers", "limit", limit, "connections", bound)
	return bound
}
