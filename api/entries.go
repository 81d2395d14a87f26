package api

// Revisions lists the states of an entry, the newest first: GET /_botwired/revisions.
type Revisions struct {
	Namespace string     `json:"namespace"`
	Key       string     `json:"key"`
	Revisions []Revision `json:"revisions"`
}

// Revision is one state of an entry.
type Revision struct {
	Revision  *uint64  `json:"revision"` // null of a pending write
	State     string   `json:"state"`    // "settled" or "pending"
	Op        string   `json:"op"`
	Value     *string  `json:"value"`      // null of a delete
	Bytes     int      `json:"bytes"`      // as BotWire counts them: characters
	CreatedAt *float64 `json:"created_at"` // Unix seconds; null of a delete and of a pending write
	UpdatedAt float64  `json:"updated_at"` // Unix seconds, by the clock of who wrote it
	Host      string   `json:"host"`       // empty if nobody knows
	Here      bool     `json:"here"`       // this daemon wrote it
	Seq       *uint64  `json:"seq"`        // null if it has none
}

// Text returns the value, which is empty of a delete.
func (r *Revision) Text() string {
	if r.Value == nil {
		return ""
	}
	return *r.Value
}

// Undone is an entry whose earlier state was written anew: POST /_botwired/undo.
type Undone struct {
	Namespace string   `json:"namespace"`
	Key       string   `json:"key"`
	Undone    Revision `json:"undone"` // as the entry was until now
	Now       Revision `json:"now"`    // the earlier state that has been written anew
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
	Entries   int    `json:"entries"`       // the lines before
	Missing   int    `json:"missing"`       // keys whose values nobody could tell
	Complete  bool   `json:"complete"`      // that is all
	Why       string `json:"why,omitempty"` // it may not be all
}

// Imported says what has become of the lines of a request: POST /_botwired/import.
type Imported struct {
	Lines   int    `json:"lines"` // of the request, from the first on, that are done
	Written int    `json:"written"`
	Same    int    `json:"same"`             // the entry has this value
	Older   int    `json:"older"`            // the entry is not older than this
	Detail  string `json:"detail,omitempty"` // why some lines are not done
}
