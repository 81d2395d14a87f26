package upstream

// WriteConfirmed lets reads go again at once: upstream is there. The pause before the
// next probe, up to the longest backoff, was for a service that is down, and who has
// just flushed may expect to be answered. It is to be called before the write settles.
func (r *Reader) WriteConfirmed() { r.health.lift() }

// lift ends an outage on the strength of requests of another kind. Requests of this
// kind stay suspect until one goes well: what the outage began with still counts for
// their patience, and a probe that is under way is left to come back.
func (h *health) lift() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		h.down = false
		h.backoff.Reset()
	}
}

// Nudge lets the flusher try upstream at once: it has been seen to be back.
func (f *Flusher) Nudge() {
	f.health.nudge()
	f.signal()
}
