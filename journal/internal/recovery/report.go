package recovery

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
)

// Salvaged counts records.
type Salvaged struct {
	Pending     int `json:"pending"`
	DeadLetters int `json:"dead_letters"`
	Settled     int `json:"settled"`
	Left        int `json:"left"` // of entries: what requests may have left upstream
	Listings    int `json:"listings"`
	Receipts    int `json:"receipts"`
	Versions    int `json:"versions"` // values of entries: pending, settled and older ones
}

// Missing counts the records that are known to be missing. There may be more.
type Missing struct {
	Known       bool     `json:"known"`   // a state record was found: the counts compare with it
	Pending     int      `json:"pending"` // pending writes
	DeadLetters int      `json:"dead_letters"`
	Changes     uint64   `json:"changes"`       // changes missing at the end: writes and their outcomes
	Differs     bool     `json:"differs"`       // the records do not match the state record: removed records that came back may hide missing ones in the counts
	FirstSeq    uint64   `json:"first_seq"`     // the first of the last writes, which are all unknown
	LastSeq     uint64   `json:"last_seq"`      // 0 if there are none
	Records     []string `json:"records"`       // records that were read but fail their checks
	Files       []string `json:"files"`         // files that could not be read completely
	ListingsCut bool     `json:"listings_lost"` // dropped: a listing that lacks a row would deny an entry
	CopiesCut   bool     `json:"copies_lost"`   // dropped: they may be older than what readers have seen
}

// Recovery says what [Recover] found and did.
type Recovery struct {
	Healthy  bool     `json:"healthy"` // nothing was changed
	Found    string   `json:"found"`   // the damage
	Copy     string   `json:"copy"`    // where the copy of the damaged directory is
	Salvaged Salvaged `json:"salvaged"`
	Missing  Missing  `json:"missing"`
	NextSeq  uint64   `json:"next_seq"` // the next write's sequence number
}

// Complete reports whether the store shows that no acknowledged write is missing. Without a state
// record it cannot show that, and Complete returns false.
func (r *Recovery) Complete() bool {
	m := &r.Missing
	return r.Healthy || m.Known && !m.Differs && m.Pending == 0 && m.DeadLetters == 0 && m.LastSeq == 0 && m.Changes == 0 &&
		len(m.Records) == 0 && len(m.Files) == 0
}

// reportSuffix follows the name of the copy in the name of its report.
const reportSuffix = ".json"

// keepReport writes a report, durably, next to the copy.
func keepReport(fsys vfs.FS, r *Recovery) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	name := r.Copy + reportSuffix
	if err := diskfs.WriteFile(fsys, name, append(text, '\n')); err != nil {
		return errors.Join(err, fsys.RemoveAll(name))
	}
	return nil
}

func lastReport(fsys vfs.FS, dir string) (*Recovery, error) {
	parent := fsys.PathDir(dir)
	names, err := fsys.List(parent)
	if err != nil {
		return nil, err
	}
	last := ""
	for _, name := range names {
		if strings.HasPrefix(name, fsys.PathBase(damagedName(dir))) && strings.HasSuffix(name, reportSuffix) {
			last = max(last, strings.TrimSuffix(name, reportSuffix))
		}
	}
	if last == "" {
		return &Recovery{Healthy: true}, nil // somebody has removed the report
	}
	f, err := fsys.Open(fsys.PathJoin(parent, last+reportSuffix))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	r := new(Recovery)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	return r, errors.Join(err, f.Close())
}
