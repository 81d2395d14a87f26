package flush

import (
	"slices"

	"github.com/botwired/botwired/journal"
)

// doubt describes the requests of an entry that were sent and not answered. Upstream may still carry
// out each of them until its late window has passed (contract 14).
type doubt struct {
	landings []landing
	// unknownUntil is set if the journal does not say what the requests would leave, as after a
	// recovery: they can land until then. Nothing is sent before: a read-back could not tell a
	// late arrival from another host's answer to the newest write, and would repair both.
	unknownUntil instant
	// confirmed is the write that upstream has confirmed since; nil: none yet. It is read back once no
	// request can land any more.
	confirmed *confirmation
}

// landing is an unanswered request, identified by the content that it would leave.
type landing struct {
	content journal.Content
	until   instant // it can no longer land after that
}

type confirmation struct {
	seq       uint64
	content   journal.Content
	sentAfter float64 // see [journal.Write]
	madeAt    float64 // see [journal.Write]
}

func contentOf(w journal.Write) journal.Content { return journal.ContentOf(w.Op, w.Value) }

// add records another unanswered request.
func (d *doubt) add(c journal.Content, until instant) {
	// During an outage of days, the same content is sent again and again.
	d.landings = slices.DeleteFunc(d.landings, func(l landing) bool { return l.content == c })
	d.landings = append(d.landings, landing{c, until})
}

// recalled returns the doubt that an earlier process left behind.
func recalled(left journal.Doubtful, until instant) *doubt {
	if len(left.Contents) == 0 {
		return &doubt{unknownUntil: until}
	}
	d := &doubt{}
	for _, c := range left.Contents {
		d.add(c, until) // guard 14.17
	}
	return d
}

func (d *doubt) contents() (all []journal.Content) {
	if d == nil {
		return nil
	}
	for _, l := range d.landings {
		all = append(all, l.content)
	}
	return all
}

// sentAt forgets the requests that could no longer land when a newer request was sent.
func (d *doubt) sentAt(at instant) {
	d.landings = slices.DeleteFunc(d.landings, func(l landing) bool { return l.until <= at }) // guard 18.5
	if d.unknownUntil <= at {
		d.unknownUntil = 0
	}
}

// over reports whether no request can land any more. A request for the content that upstream already
// holds still counts: a newer write may come before it lands.
func (d *doubt) over() bool { return d.unknownUntil == 0 && len(d.landings) == 0 } // guard 14.1

// until returns the end of the last late window.
func (d *doubt) until() instant {
	at := d.unknownUntil
	for _, l := range d.landings {
		at = max(at, l.until)
	}
	return at
}

// base returns the put that upstream has confirmed since, in place of a base that is older. A newer one may be
// another host's.
func (d *doubt) base(known journal.Base) journal.Base {
	if d == nil || d.confirmed == nil || d.confirmed.content.Op != journal.Put || known.Origin.Known() > d.confirmed.sentAfter { // guard 17.62
		return known
	}
	c := d.confirmed
	return journal.Base{Known: true, Present: true, Content: c.content, Origin: journal.Origin{Seq: c.seq, After: c.sentAfter}} // guard 17.61
}

// verifying reports whether the newest write only has to be read back.
func (d *doubt) verifying(newest uint64) bool {
	return d != nil && d.confirmed != nil && d.confirmed.seq >= newest
}

func (d *doubt) mayLeave(c journal.Content) bool {
	return slices.ContainsFunc(d.landings, func(l landing) bool { return l.content == c }) // guard 18.4
}
