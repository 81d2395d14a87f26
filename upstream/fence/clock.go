package fence

import "time"

const (
	// DateTick is how far upstream's clock may be ahead of the Date of its answer, in seconds. The
	// header leaves out up to a second. A server may also make the header once a second and send it
	// with all answers until the next (uvicorn, BotWire's own, does).
	DateTick = 2.25
	// Agree is how far two clocks may be apart, in seconds, while times by both are compared as they stand.
	Agree = 2
	// Unsure is how far a time may be wrong, in seconds, after it was corrected by [Ahead]: a Date may show clocks
	// to agree that do not.
	Unsure = Agree + DateTick
)

// Ahead returns how far upstream's clock is ahead of this host's wall clock, in seconds. It is 0 unless the
// Date of an answer shows that the clocks are more than [Agree] apart; date is zero if the answer has none.
// The answer was received at a time, and took as long since its request was sent. So the result is right to
// about a second and half of that (contract 17).
func Ahead(date, received time.Time, took time.Duration) float64 {
	if date.IsZero() {
		return 0
	}
	least := date.Sub(received.Round(0)).Seconds()
	most := least + took.Seconds() + DateTick
	if least <= Agree && most >= -Agree { // guard 17.21
		return 0
	}
	return (least + most) / 2
}
