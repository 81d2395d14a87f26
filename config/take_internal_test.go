package config

import "testing"

// Every setting that a namespace may have of its own is one that an override replaces.
func TestTakeKnowsEverySetting(t *testing.T) {
	other := map[string]string{"duration": "3d", "size": "3GiB", "number": "3", "boolean": "", "word": AssumeAbsent}
	for _, row := range overridable() {
		var general Config
		text := other[row.codec.kind]
		if text == "" {
			text = map[string]string{"true": "false", "false": "true"}[row.Default]
		}
		loaded, err := Load(Sources{Flags: map[string]string{
			"namespaces": `[{"match": "ns", "` + row.Name + `": "` + text + `"}]`, "seal.key_file": "keys",
		}})
		if err != nil {
			t.Fatal(err)
		}
		general.Policy = loaded.Config.For("ns")
		if got := row.codec.print(&general); got != text {
			t.Errorf("%s is %s in the namespace, want %s", row.Name, got, text)
		}
		general.Policy = loaded.Config.For("other")
		if got := row.codec.print(&general); got == text {
			t.Errorf("%s is %s elsewhere, too", row.Name, got)
		}
	}
}
