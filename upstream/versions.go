package upstream

import (
	"context"

	"github.com/botwired/botwired/journal"
)

// Version is what an engine with revisions holds of an entry: a value, or the tombstone that a
// delete has left.
type Version struct {
	// Revision is the engine's own number of the version. An entry's revisions grow. It is 0
	// if the engine holds nothing of the entry, and all other fields are zero then.
	Revision  uint64
	Deleted   bool    // it is a tombstone
	Value     string  // empty of a tombstone, and from [Versions.Known]
	ListBytes int     // the size that a listing shows
	CreatedAt float64 // Unix seconds: when the entry was put first, or first after a delete
	WrittenAt float64 // Unix seconds: when its writer wrote it; a reader's updated_at
	Writer    Writer
}

// Writer names one write among those of all hosts. A copied data directory has the host's name
// too: two writes are the same only if their contents and times are.
type Writer struct {
	Host string // of one data directory
	Seq  uint64 // the write's sequence number there; 0 if it has none
}

// Present reports whether the version is a value.
func (v *Version) Present() bool { return v.Revision != 0 && !v.Deleted }

// Proposal is a write that an engine with revisions is asked to carry out.
type Proposal struct {
	journal.ID
	Op        journal.Op
	Value     string
	ListBytes int
	WrittenAt float64 // Unix seconds, with microseconds
	Writer    Writer
	// Over is the version that the write replaces. Of it the engine needs the revision, which
	// must still be the entry's last one, and created_at.
	Over Version
}

// Versions is what an [Engine] offers that keeps a revision of each entry: writes that take place
// only over the version that they are based on. With it the flusher's fences are exact. Its methods
// may be called concurrently. Errors are *[Error], and those of Swap *[Conflict] too.
type Versions interface {
	// Known returns an entry's last version without its value, as far as the engine knows it
	// without asking. It may be old: Swap finds out. ok is false if the engine must be asked.
	Known(id journal.ID) (v Version, ok bool)
	// Version asks for an entry's last version. It may be old by the time it arrives.
	Version(ctx context.Context, id journal.ID) (Version, error)
	// Swap carries out a write, and returns the version that it has become. A delete leaves a
	// tombstone, whatever it replaces. After an error that is no [Conflict] the write may have been
	// carried out, or may yet be, but never once another version has replaced p.Over.
	Swap(ctx context.Context, p Proposal) (Version, error)
}

// Conflict says that an entry's last version is another one than a [Proposal] was to replace.
// After a lost answer it may be the proposal's own.
type Conflict struct {
	// Now is the version that was the last one. It is nil if the engine does not say: several
	// writes to the entry are under way, and to ask again at once would only add to them.
	Now *Version
}

func (c *Conflict) Error() string { return "upstream holds another version of the entry" }
