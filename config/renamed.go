package config

// renamed returns the name of today for each name that a setting had in the past.
func renamed() map[string]string {
	return map[string]string{
		"upstream.settle_time": "upstream.late_window", // "settled" is what upstream has confirmed
	}
}

// gone returns what takes the place of each setting that is no more, as a sentence.
func gone() map[string]string {
	return map[string]string{}
}

// formerly completes "expected ..." for a name that a setting had in the past. It looks name up as
// spell writes it: as a key of the file, a variable or a flag. A former name is refused, so that
// nobody goes on believing that it has an effect.
func formerly(name string, spell func(Setting) string) (expected string, ok bool) {
	for old, now := range renamed() {
		if spell(Setting{Name: old}) == name {
			return spell(Setting{Name: now}) + ", which is the new name of this setting", true
		}
	}
	for old, instead := range gone() {
		if spell(Setting{Name: old}) == name {
			return "this setting to be left out, as it is gone: " + instead, true
		}
	}
	return "", false
}
