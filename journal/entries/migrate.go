package entries

import (
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// migratedBytes bounds one change of the migration: it turns at most so many bytes of dead letters into versions, but at
// least one letter.
const migratedBytes = 1 << 20

// migrateConflicts turns the dead letters that an older botwired has made of conflicts between hosts into lost versions.
// Nothing else uses the store yet. Each change removes the letters that it turns: after a crash, the next start goes on.
// awaitRoom is Options.AwaitRoom.
func migrateConflicts(s *store.Store, lost *losses, awaitRoom func(needed int64) error) error {
	var letters []record.Dead
	size, from := int64(0), uint64(0)
	for more := true; more; {
		err := store.ScanDead(s.DB(), from, func(l *record.Dead) error {
			if l.Conflict == nil {
				return nil
			}
			if size >= migratedBytes {
				return store.ErrEnough
			}
			letters, size, from = append(letters, *l), size+l.Size(), l.Seq+1
			return nil
		})
		if more = errors.Is(err, store.ErrEnough); err != nil && !more {
			return err
		}
		if len(letters) == 0 {
			return nil
		}
		if err := awaitRoomFor(s, size, awaitRoom); err != nil {
			return err
		}
		if err := s.Update(store.ChangeFunc(func(tx *store.Tx) error { return lost.migrate(tx, letters) })); err != nil {
			return err
		}
		letters, size = nil, 0
	}
	return nil
}

// awaitRoomFor waits until the disk has room for a change.
func awaitRoomFor(s *store.Store, size int64, awaitRoom func(needed int64) error) error {
	for s.Look(); awaitRoom != nil && s.Low(size); s.Look() {
		if err := awaitRoom(size); err != nil {
			return err
		}
	}
	return nil
}

// migrate turns dead letters into lost versions. A write's version is there already, unless it was removed for room.
func (l *losses) migrate(tx *store.Tx, letters []record.Dead) error {
	r, err := tx.Reader()
	if err != nil {
		return err
	}
	kept := make([]bool, len(letters))
	for i := range letters {
		_, kept[i], err = store.ReadVersion(r, letters[i].ID, letters[i].Seq)
		if err = store.IgnoreDamage(err); err != nil {
			return err
		}
	}
	for i := range letters {
		letter := &letters[i]
		if tx.DeleteDead(letter); !kept[i] { // guard 21.16
			tx.SetVersion(letter.ID, letter.Seq, &record.Version{
				Op: letter.Op, Shown: letter.Conflict.Theirs, At: letter.WrittenAt, Author: letter.Author, ListBytes: letter.ListBytes, Value: letter.Value,
			})
		}
		l.add(tx, letter.ID, letter.Seq, letter.Value, record.Loss{At: letter.RefusedAt, Apart: letter.Conflict.Theirs})
	}
	return nil
}
