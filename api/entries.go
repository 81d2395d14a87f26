package api

// Revisions lists the states of an entry, the present one first: GET /_botwired/revisions.
type Revisions struct {
	Namespace string     `json:"namespace"`
	Key       string     `json:"key"`
	Revisions []Revision `json:"revisions"`
	Complete  bool       `json:"complete"`      // false if upstream could not be asked for the states that it keeps
	Why       string     `json:"why,omitempty"` // why it is not complete
}

// Revision is one state of an entry.
type Revision struct {
	Revision  *uint64  `json:"revision"` // upstream's, or the daemon's if upstream keeps none; null if it has none
	State     string   `json:"state"`    // "settled", "pending", "superseded", "dead", "lost", "shown", "gone", "absent" or "unsealed"
	Op        string   `json:"op"`
	Value     *string  `json:"value"`             // null for a delete
	Bytes     int      `json:"bytes"`             // in BotWire's count: characters
	CreatedAt *float64 `json:"created_at"`        // Unix seconds; null for a delete and for a pending write
	UpdatedAt float64  `json:"updated_at"`        // Unix seconds, by the writer's clock
	Host      string   `json:"host"`              // "" if unknown
	Here      bool     `json:"here"`              // written by this daemon
	Author    string   `json:"author"`            // the program that wrote it, by its own word; "" if unknown
	Seq       *uint64  `json:"seq"`               // the state's number in this daemon's journal; null if it has none
	LostAt    *float64 `json:"lost_at,omitempty"` // Unix seconds: when the daemon learnt that it has lost a conflict between two hosts; nil if it has not
	// Apart says that it is another host's, and was never in force here: its place in the list says nothing about when it was.
	Apart bool `json:"apart,omitempty"`
	// Gap says why the state before it is missing, so that the next one in the list is older: "forgotten", it was, or may
	// have been, removed for room; "damaged". "" if nothing is known to be missing.
	Gap string `json:"gap,omitempty"`
}

// Text returns the value, or "" for a delete.
func (r *Revision) Text() string {
	if r.Value == nil {
		return ""
	}
	return *r.Value
}

// Lost is a page of the states that have lost a conflict between two hosts, the last one first: GET
// /_botwired/revisions/lost.
type Lost struct {
	Lost []LostState `json:"lost"`
	Next *string     `json:"next"` // the next page's parameter after; null on the last page
}

// LostState is a state that has lost a conflict between two hosts, without its value.
type LostState struct {
	Namespace string   `json:"namespace"`
	Key       string   `json:"key"`
	Revision  *uint64  `json:"revision"` // see [Revision]
	Op        string   `json:"op"`
	UpdatedAt float64  `json:"updated_at"` // Unix seconds, by the writer's clock
	LostAt    *float64 `json:"lost_at"`    // Unix seconds
	Host      string   `json:"host"`       // "" if unknown
	Here      bool     `json:"here"`       // written by this daemon
	Author    string   `json:"author"`     // "" if unknown
	Seq       *uint64  `json:"seq"`
}

// Undone is an entry whose earlier state was written again: POST /_botwired/undo.
type Undone struct {
	Namespace string   `json:"namespace"`
	Key       string   `json:"key"`
	Undone    Revision `json:"undone"` // the state before the undo
	Now       Revision `json:"now"`    // the earlier state, which was written again
}

// Entries is a page of the entries that the daemon knows in a namespace, by key: GET
// /_botwired/entries.
type Entries struct {
	Entries []Entry `json:"entries"`
	Next    *string `json:"next"` // the next page's parameter after; null on the last page
	// Complete means that upstream had no other keys in the namespace when it last listed it.
	Complete bool `json:"complete"`
}

// Entry is a known entry, without its value.
type Entry struct {
	Key       string  `json:"key"`
	State     string  `json:"state"` // "pending" or "settled"
	Op        string  `json:"op"`
	ListBytes int     `json:"list_bytes"`
	UpdatedAt float64 `json:"updated_at"` // Unix seconds
	Seq       *uint64 `json:"seq"`        // null unless a write of this daemon is known to have made the state
}

// ExportEnd is the last line of an export: GET /_botwired/export.
type ExportEnd struct {
	End ExportCounts `json:"end"`
}

// ExportCounts counts the entries of a namespace's export, and says whether the export is complete.
type ExportCounts struct {
	Namespace string `json:"namespace"`
	Entries   int    `json:"entries"`       // in the lines before this one
	Missing   int    `json:"missing"`       // keys whose values could not be read
	Complete  bool   `json:"complete"`      // nothing is missing
	Why       string `json:"why,omitempty"` // why something may be missing
}

// Imported says what happened to the lines of a request: POST /_botwired/import.
type Imported struct {
	Lines   int    `json:"lines"` // how many lines of the request are done, from the first
	Written int    `json:"written"`
	Same    int    `json:"same"`             // the entry already has this value
	Older   int    `json:"older"`            // the existing entry is not older
	Detail  string `json:"detail,omitempty"` // why some lines are not done
}

// Rewind says what an undo of a namespace would do: GET
// /_botwired/undo/namespace.
type Rewind struct {
	Namespace string  `json:"namespace"`
	Before    float64 `json:"before"` // Unix seconds
	AsOf      uint64  `json:"as_of"`  // the parameter of the undo
	// Author is the program whose writes would be undone; null with all_authors, and if there are none.
	Author *string `json:"author"`
	// Authors counts the entries that programs of this daemon have written since, by author, up to 50 authors.
	Authors map[string]int `json:"authors"`
	RewindCounts
	// Changes are the first entries that would be restored or deleted.
	Changes []RewindChange `json:"changes"`
}

// RewindCounts counts entries that were written since.
type RewindCounts struct {
	Restored int `json:"restored"`
	Deleted  int `json:"deleted"`
	Same     int `json:"same"` // they are as they were
	Left     int `json:"left"`
	// LeftEntries are the first entries that are left as they are.
	LeftEntries []LeftEntry `json:"left_entries"`
}

// RewindChange is an entry that an undo would restore or delete.
type RewindChange struct {
	Key   string `json:"key"`
	Op    string `json:"op"`
	Bytes int    `json:"bytes"` // of the value, in characters
}

// LeftEntry is an entry that an undo leaves as it is.
type LeftEntry struct {
	Key string `json:"key"`
	Why string `json:"why"`
}

// Rewound is a page of an undo of a namespace: POST /_botwired/undo/namespace.
type Rewound struct {
	Namespace string `json:"namespace"`
	RewindCounts
	Next *string `json:"next"` // the next page's parameter after; null on the last page
}
