package recovery

import "github.com/botwired/botwired/journal/internal/store"

// Salvaged counts records.
type Salvaged struct {
	Pending     int `json:"pending"` // superseded ones that awaited removal included
	DeadLetters int `json:"dead_letters"`
	Settled     int `json:"settled"`
	SentMarks   int `json:"sent_marks"`
	Listings    int `json:"listings"`
}

// Missing counts the records that are known to be missing: at least so many are.
type Missing struct {
	Known       bool     `json:"known"`   // a state record was found: the counts are of its moment
	Pending     int      `json:"pending"` // pending writes
	DeadLetters int      `json:"dead_letters"`
	Changes     uint64   `json:"changes"`       // the last ones, writes and what became of them
	Differs     bool     `json:"differs"`       // from what there was: removed records may be back in place of missing ones
	FirstSeq    uint64   `json:"first_seq"`     // of the last writes, of which nothing is known
	LastSeq     uint64   `json:"last_seq"`      // 0 when there are none
	Records     []string `json:"records"`       // read, and not as they were written
	Files       []string `json:"files"`         // that could not be read in full
	ListingsCut bool     `json:"listings_lost"` // given up: a listing that lacks a row would deny an entry
}

// Recovery is what [Recover] found and did.
type Recovery struct {
	Healthy  bool     `json:"healthy"` // nothing was changed
	Found    string   `json:"found"`   // what was wrong
	Copy     string   `json:"copy"`    // where the damaged directory is
	Salvaged Salvaged `json:"salvaged"`
	Missing  Missing  `json:"missing"`
	NextSeq  uint64   `json:"next_seq"` // the next write's sequence number
}

// Complete reports whether everything that was acknowledged is there, as far as can be
// known.
func (r *Recovery) Complete() bool {
	m := &r.Missing
	return r.Healthy || m.Known && !m.Differs && m.Pending == 0 && m.DeadLetters == 0 && m.LastSeq == 0 && m.Changes == 0 &&
		len(m.Records) == 0 && len(m.Files) == 0
}

// account says what was salvaged and what is missing.
func (r *Recovery) account(found *salvage, kept *sifter, m store.Mark) {
	r.Salvaged = kept.counts
	missing := &r.Missing
	missing.Known = found.stated
	missing.Records, missing.Files = kept.damagedNames(), found.unread
	last := max(m.Seq, found.newest.Seq, kept.totals.Seq)
	if found.stated {
		missing.Differs = found.newest.Compare(kept.totals) != nil
		missing.Pending = max(0, int(found.newest.Pending)-kept.counts.Pending)
		missing.DeadLetters = max(0, int(found.newest.Dead)-kept.counts.DeadLetters)
	}
	if known := max(found.newest.Seq, kept.totals.Seq); m.Seq > known {
		missing.FirstSeq, missing.LastSeq = known+1, m.Seq
	}
	if m.Batches > found.newest.Batches {
		missing.Changes = m.Batches - found.newest.Batches
	}
	if !r.Complete() {
		missing.ListingsCut = r.Salvaged.Listings > 0
		r.Salvaged.Listings = 0
	}
	r.NextSeq = last + recoveryGap + 1
}
