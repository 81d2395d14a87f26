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
	Pending     int `json:"pending"` // superseded ones that awaited removal included
	DeadLetters int `json:"dead_letters"`
	Settled     int `json:"settled"`
	SentMarks   int `json:"sent_marks"`
	Listings    int `json:"listings"`
	Receipts    int `json:"receipts"`
}

// Missing counts the records that are known to be missing: at least so many are.
type Missing struct {
	Known       bool     `json:"known"`   // a state record was found: the counts are of its moment
	Pending     int      `json:"pending"` // pending writes
	DeadLetters int      `json:"dead_letters"`
	Changes     uint64   `json:"changes"`       // the last ones, writes and what became of them
	Differs     bool     `json:"differs"`       // from what there was: removed records may be back in place of missing ones
	FirstSeq    uint64   `json:"first_seq"`     // the first of the last writes, about which nothing is known
	LastSeq     uint64   `json:"last_seq"`      // 0 when there are none
	Records     []string `json:"records"`       // read, and not as they were written
	Files       []string `json:"files"`         // that could not be read in full
	ListingsCut bool     `json:"listings_lost"` // given up: a listing that lacks a row would deny an entry
	CopiesCut   bool     `json:"copies_lost"`   // given up: they may be older than what readers have seen
}

// Recovery says what [Recover] found and did.
type Recovery struct {
	Healthy  bool     `json:"healthy"` // nothing was changed
	Found    string   `json:"found"`   // what was wrong
	Copy     string   `json:"copy"`    // where the damaged directory is
	Salvaged Salvaged `json:"salvaged"`
	Missing  Missing  `json:"missing"`
	NextSeq  uint64   `json:"next_seq"` // the next write's sequence number
}

// Complete reports whether every acknowledged write is there, as far as the store shows.
func (r *Recovery) Complete() bool {
	m := &r.Missing
	return r.Healthy || m.Known && !m.Differs && m.Pending == 0 && m.DeadLetters == 0 && m.LastSeq == 0 && m.Changes == 0 &&
		len(m.Records) == 0 && len(m.Files) == 0
}

// reportSuffix, after the name of the copy, is the name of its report.
const reportSuffix = ".json"

// keepReport writes a report, durably, beside the copy.
func keepReport(fsys vfs.FS, r *Recovery) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := fsys.Create(r.Copy+reportSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), diskfs.SyncDir(fsys, fsys.PathDir(r.Copy)))
}

// lastReport reads the report of the latest recovery.
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
		return &Recovery{Healthy: true}, nil // an older botwired wrote none
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
