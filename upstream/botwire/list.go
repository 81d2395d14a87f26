package botwire

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// listLimit is the maximum number of keys that upstream lists.
	listLimit = 1000
	// latestTime bounds times, in Unix seconds: the year 2106.
	latestTime = 1 << 32
)

// List implements [upstream.Engine]. BotWire lists 1,000 keys at most. A row that cannot be BotWire's is
// left out: an entry that it may stand for is not absent.
func (c *Client) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	answer, failed := c.do(ctx, http.MethodGet, c.base+"/memory/"+namespace+"?limit="+strconv.Itoa(listLimit), nil)
	if failed != nil {
		return nil, false, failed
	}
	var doc struct {
		Namespace string
		Count     *int
		Keys      []json.RawMessage
	}
	if !answer.decode(&doc) || answer.status != http.StatusOK || doc.Namespace != namespace ||
		doc.Count == nil || *doc.Count != len(doc.Keys) {
		return nil, false, answer.failure()
	}
	complete = len(doc.Keys) < listLimit
	for _, text := range doc.Keys {
		row, nobodys, ok := decodeRow(text)
		if ok {
			rows = append(rows, row)
			continue
		}
		complete = complete && nobodys // guard 9.75
	}
	c.leftOut(namespace, len(doc.Keys)-len(rows))
	return rows, complete, nil
}

// decodeRow decodes a row of a list. If ok is false, it cannot be BotWire's; nobodys says that its key can be
// no entry's.
func decodeRow(text json.RawMessage) (row journal.Row, nobodys, ok bool) {
	var named struct{ Key *string }
	if json.Unmarshal(text, &named) != nil || named.Key == nil {
		return row, false, false
	}
	if wire.CheckKey(*named.Key) != nil { // guard 16.46
		return row, true, false
	}
	var doc struct {
		Bytes     *int
		UpdatedAt *float64 `json:"updated_at"`
	}
	if json.Unmarshal(text, &doc) != nil || doc.Bytes == nil ||
		*doc.Bytes < 0 || *doc.Bytes > maxAnswer || !isTime(doc.UpdatedAt) { // guard 4.37
		return row, false, false
	}
	return journal.Row{Key: *named.Key, ListBytes: *doc.Bytes, UpdatedAt: *doc.UpdatedAt}, false, true
}

// isTime reports whether an answer has a time of an entry that can be BotWire's. A copy with an absurd time
// would be newer than all that comes later.
func isTime(at *float64) bool { return at != nil && *at >= 0 && *at < latestTime } // guard 7.49

// leftOut logs the first of several lists of a namespace with rows that are left out.
func (c *Client) leftOut(namespace string, rows int) {
	if rows == 0 {
		c.odd.Delete(namespace)
	} else if _, before := c.odd.LoadOrStore(namespace, true); !before && c.opts.Logger != nil {
		c.opts.Logger.Warn("upstream lists what cannot be BotWire's: these rows are left out", "namespace", namespace, "rows", rows)
	}
}
