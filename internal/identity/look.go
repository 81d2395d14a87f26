package identity

// Look compares a data directory with what the last daemon recorded, and says what is otherwise.
// It changes nothing. A directory without a record counts as new. Of the journal, Look knows
// nothing: an older one that was put in is noticed only by its files. files are [Options.Files].
func Look(dir string, files []string) (Kind, string) {
	past, own, err := read(dir)
	if isMissing(err) {
		return New, ""
	}
	if err != nil {
		return Unknown, err.Error()
	}
	kind, why := past.compare(places{dir, append([]string{directory}, files...)}.now(), own, past.Seq)
	if kind == Rebooted {
		why = "" // no reason to doubt
	}
	return kind, why
}
