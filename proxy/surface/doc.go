// Package surface answers the requests under /_botwired/: the daemon's state, its pending writes and dead
// letters, the streams of events and requests, export and import, restorations, earlier versions, the
// metrics, the MCP endpoint and the dashboard.
//
// It is built on proxy/memory and the journal, and answers with the documents of package api. It owns only
// the state that no other package needs: the callers, the last hour, and the figures since the start. An
// append and an undo are requests to the memory, so package proxy answers them.
package surface
