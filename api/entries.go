package api

// Revisions lists the states of an entry, the newest first: GET /_botwired/revisions.
type Revisions struct {
	Namespace string     `json:"namespace"`
	Key       string     `json:"key"`
	Revisions []Revision `json:"revisions"`
}

// Revision is one state of an entry.
type Revision struct {
	Revision  *uint64  `json:"revision"` // null for a pending write
	State     string   `json:"state"`    // "settled" or "pending"
	Op        string   `json:"op"`
	Value     *string  `json:"value"`      // null for a delete
	Bytes     int      `json:"bytes"`      // as BotWire counts them: characters
	CreatedAt *float64 `json:"created_at"` // Unix seconds; null for a delete and for a pending write
	UpdatedAt float64  `json:"updated_at"` // Unix seconds, by the writer's clock
	Host      string   `json:"host"`       // empty if unknown
	Here      bool     `json:"here"`       // this daemon wrote it
	Seq       *uint64  `json:"seq"`        // null if it has none
}

// Text returns the value; empty for a delete.
func (r *Revision) Text() string {
	if r.Value == nil {
		return ""
	}
	return *r.Value
}

// Undone is an entry whose earlier state was written again: POST /_botwired/undo.
type Undone struct {
	Namespace string   `json:"namespace"`
	Key       string   `json:"key"`
	Undone    Revision `json:"undone"` // as the entry was until now
	Now       Revision `json:"now"`    // the earlier state, which has been written again
}

// Entries is a page of the entries that the daemon knows of a namespace, by key: GET
// /_botwired/entries.
type Entries struct {
	Entries []Entry `json:"entries"`
	Next    *string `json:"next"` // the parameter after of the next page; null at the end
	// Complete says that upstream had no other keys of the namespace when it last listed it.
	Complete bool `json:"complete"`
}

// Entry is an entry that the daemon knows, without its value.
type Entry struct {
	Key       string  `json:"key"`
	State     string  `json:"state"` // "pending" or "settled"
	Op        string  `json:"op"`
	ListBytes int     `json:"list_bytes"`
	UpdatedAt float64 `json:"updated_at"` // Unix seconds
	Seq       *uint64 `json:"seq"`        // null if no write of this daemon's is known to have made it
}

// ExportEnd is the last line of an export: GET /_botwired/export.
type ExportEnd struct {
	End ExportCounts `json:"end"`
}

// ExportCounts ends the export of a namespace.
type ExportCounts struct {
	Namespace string `json:"namespace"`
	Entries   int    `json:"entries"`       // in the lines before this one
	Missing   int    `json:"missing"`       // keys whose values could not be read
	Complete  bool   `json:"complete"`      // the export lacks nothing
	Why       string `json:"why,omitempty"` // why it may lack something
}

// Imported says what happened to the lines of a request: POST /_botwired/import.
type Imported struct {
	Lines   int    `json:"lines"` // of the request, from the first on, that are done
	Written int    `json:"written"`
	Same    int    `json:"same"`             // the entry has this value
	Older   int    `json:"older"`            // the entry is not older than this
	Detail  string `json:"detail,omitempty"` // why some lines are not done
}
