package config

// renamed returns the name of today for each name that a setting had in the past. An old
// name is refused, with the new one in the error, so that nobody goes on believing that
// it has an effect.
func renamed() map[string]string {
	return map[string]string{
		"upstream.settle_time": "upstream.late_window", // "settled" is what upstream has confirmed
	}
}

// renamedAs looks an old name up as the environment or the command line spells it, and
// spells the new one alike.
func renamedAs(name string, spell func(Setting) string) (now string, ok bool) {
	for old, now := range renamed() {
		if spell(Setting{Name: old}) == name {
			return spell(Setting{Name: now}), true
		}
	}
	return "", false
}

// newName completes "expected ..." for a setting that was renamed.
func newName(now string) string { return now + ", which is the new name of this setting" }
