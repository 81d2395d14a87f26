package surface

import (
	"time"

	"github.com/botwired/botwired/api"
)

// WatchState says how the watch does that keeps a [View] up to date.
type WatchState struct {
	Bucket  string    // that is watched
	Server  string    // that the connection leads to; empty if there is none
	Lost    string    // why upstream is not believed; empty if it is: see [Loss]
	Sound   bool      // the view misses nothing
	Since   time.Time // since when it is, or is not
	Reason  string    // for people: why it is not; empty if it is
	Entries int       // in the view
	Bytes   int64     // about the memory that the view takes
}

func newWatchDocument(look func() WatchState) *api.WatchState {
	if look == nil {
		return nil
	}
	now := look()
	return &api.WatchState{
		Bucket: now.Bucket, Server: now.Server, Lost: now.Lost,
		Sound: now.Sound, Since: now.Since.UTC().Round(time.Millisecond), Reason: now.Reason,
		Entries: now.Entries, Bytes: now.Bytes,
	}
}
