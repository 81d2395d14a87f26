package term

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"a/b ü 語 <script>":                            "a/b ü 語 <script>",
		"\x1b[2J\n\r\t\x00\x7f":                       " [2J     ",
		"\u009b2J\u2028\u2029":                        " 2J  ",
		"right to left: \u202elive\u2066\u200b\ufeff": "right to left:  live   ",
		"\U0001f469\u200d\U0001f680":                  "\U0001f469\u200d\U0001f680",
	} {
		if got := Printable(text); got != want {
			t.Errorf("printable(%q) = %q, want %q", text, got, want)
		}
	}
}
