package numbered

import "testing"

func TestNumber(t *testing.T) {
	whole := Value("k", 12, 300)
	if len(whole) != 300 {
		t.Errorf("a value has %d bytes, want 300", len(whole))
	}
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"a value", whole, 12},
		{"a value without room for more than its head", Value("k", 3, 1), 3},
		{"an absent entry", "", 0},
		{"the beginning of a value's head", "k:1", 0},
		{"half a value", whole[:100] + "!", 0},
		{"a value with the end of another one", whole[:290] + Value("k", 13, 300)[290:], 0},
		{"a value with another number", "k:13" + whole[len("k:12"):], 0},
		{"another key's value", Value("j", 12, 300), 0},
		{"a number that no write has", Value("k", 0, 300), 0},
	} {
		if n, ok := Number("k", c.text); n != c.want || ok != (c.want > 0) {
			t.Errorf("%s: number %d (%t), want %d", c.name, n, ok, c.want)
		}
	}
}
