package config_test

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/config"
)

// Each setting has unique spellings, and a text that fits a table.
func TestSettingNames(t *testing.T) {
	seen := map[string]string{}
	for _, s := range config.Settings() {
		for _, spelling := range []string{s.Env(), "--" + s.Flag(), "--" + s.Alias} {
			if other, twice := seen[spelling]; twice && spelling != "--" {
				t.Errorf("%s and %s are both %s", other, s.Name, spelling)
			}
			seen[spelling] = s.Name
		}
		if s.Doc == "" || strings.ContainsAny(s.Doc, "|\n") {
			t.Errorf("%s: documentation %q does not fit a table", s.Name, s.Doc)
		}
		if s.Kind() == "" {
			t.Errorf("%s: no kind", s.Name)
		}
	}
}
