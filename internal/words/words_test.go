package words_test

import (
	"testing"
	"time"

	"github.com/botwired/botwired/internal/words"
)

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		words.Count(0, "write"):                           "0 writes",
		words.Count(1, "entry"):                           "1 entry",
		words.Count(3021, "entry"):                        "3,021 entries",
		words.Count(2, "key"):                             "2 keys",
		words.Number(-1234567):                            "-1,234,567",
		words.Number(999):                                 "999",
		words.Duration(-time.Second):                      "0 ms",
		words.Duration(250e6):                             "250 ms",
		words.Duration(1299e6):                            "1.2 s",
		words.Duration(3 * time.Second):                   "3 s",
		words.Duration(59.9e9):                            "59 s",
		words.Duration(185e9):                             "3 min",
		words.Duration(2 * time.Hour):                     "2 h",
		words.Duration(125 * time.Minute):                 "2 h 5 min",
		words.Duration(76*time.Hour + 59*time.Minute):     "3 d 4 h",
		words.Duration(365*24*time.Hour + 59*time.Minute): "365 d",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
