package api

// WriteEvent is an event about a write: GET /_botwired/events. docs/http.md has the names of the
// events.
type WriteEvent struct {
	At        float64 `json:"at"` // Unix seconds
	Seq       uint64  `json:"seq"`
	Namespace string  `json:"namespace"`
	Key       string  `json:"key"`
	Op        string  `json:"op"` // "put" or "delete"
	Bytes     int     `json:"bytes"`
	Author    string  `json:"author,omitempty"` // of the event pending; left out if unknown
	By        *uint64 `json:"by,omitempty"`     // the write through this daemon that superseded this one; left out if there is none
	Reason    string  `json:"reason,omitempty"`
}

// ChangedEvent is an event about an entry that another host has changed.
type ChangedEvent struct {
	At        float64 `json:"at"` // Unix seconds
	Namespace string  `json:"namespace"`
	Key       string  `json:"key"`
}

// UpstreamEvent is an event about the health of upstream.
type UpstreamEvent struct {
	At     float64 `json:"at"` // Unix seconds
	State  string  `json:"state"`
	Since  float64 `json:"since"` // Unix seconds
	Reason string  `json:"reason"`
}

// ResetEvent tells the reader that it has missed events.
type ResetEvent struct {
	At     float64 `json:"at"` // Unix seconds
	Reason string  `json:"reason"`
}

// AnsweredRequest is an answered request to the memory API: GET /_botwired/monitor.
type AnsweredRequest struct {
	At           float64  `json:"at"` // when it arrived, in Unix seconds
	Method       string   `json:"method"`
	Path         string   `json:"path"`
	Namespace    string   `json:"namespace"`
	Key          string   `json:"key"`
	Status       int      `json:"status"`
	Answered     string   `json:"answered"`
	AgeSeconds   *float64 `json:"age_seconds"` // null if the answer has no age
	Microseconds int64    `json:"microseconds"`
	Bytes        int      `json:"bytes"`
}

// Skipped says that requests came faster than a reader of the monitor could read them.
type Skipped struct {
	Requests uint64 `json:"requests"`
}
