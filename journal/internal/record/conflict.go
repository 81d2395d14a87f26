package record

// Conflict is in a dead letter that an older botwired has made of the loser of a conflict between two hosts. Nothing writes
// such records any more: the journal makes versions of them before it uses its dead letters.
type Conflict struct {
	Theirs bool // it is another host's state: Seq numbers only the dead letter
	winner int  // the length of the winner's value
}

// The kind of such a dead letter, and the flags beside it.
const (
	kindConflict = 1
	flagTheirs   = 1 << 6
	flagWinner   = 1 << 7
)

// conflict decodes what follows the kind and the author of a dead letter. It returns nil unless the letter is one of a
// conflict.
func (d *decoder) conflict(kind byte) *Conflict {
	is := &Conflict{Theirs: kind&flagTheirs != 0}
	if kind&flagWinner != 0 {
		d.bad = d.bad || d.byte() > 1 // whether it was a value
		d.float()                     // when it was written
		d.uvarint()                   // its number
		is.winner = len(d.string())
	}
	if kind&kindMask == kindConflict {
		return is
	}
	d.bad = d.bad || kind&(flagTheirs|flagWinner) != 0
	return nil
}
