package docs

import (
	"regexp"
	"strings"
	"testing"
)

// trial is a daemon on the embedded upstream: in a block, in a sentence, or in the help of a command.
var trial = regexp.MustCompile("botwired (?:serve|run)[^`#]*--upstream embedded[^`#]*")

// A trial on the embedded upstream has a directory of its own. In the default directory it would keep the reader from
// the next step: a daemon in front of BotWire refuses the directory of another upstream.
func TestATrialHasADirectoryOfItsOwn(t *testing.T) {
	count := 0
	for _, p := range pages(t) {
		for number, text := range p.lines {
			for _, command := range trial.FindAllString(text, -1) {
				count++
				if !strings.Contains(command, "--data-dir") {
					t.Errorf("%s:%d: %q is in the default directory", p.path, number+1, command)
				}
			}
		}
	}
	if count < 4 {
		t.Errorf("only %d trials were found", count)
	}
}
