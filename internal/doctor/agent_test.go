package doctor

import (
	"os"
	"path/filepath"
	"testing"
)

// An agent of this shell uses the daemon only if BOTWIRE_URL leads to it.
func TestDoctorOfBotwireURL(t *testing.T) {
	const right = "export BOTWIRE_URL=http://127.0.0.1:2689"
	for _, c := range []struct {
		listen, url string
		result      Result
		remedy      string
		part        string
	}{
		{"127.0.0.1:2689", "", Warning, right, "not set in this shell"},
		{"127.0.0.1:2689", "http://127.0.0.1:2689", OK, "", ""},
		{"127.0.0.1:2689", "http://127.0.0.1:2689/", OK, "", ""},
		{"[::1]:2689", "http://[::1]:2689", OK, "", ""},
		{"127.0.0.1:2689", "http://127.0.0.1:2690", Failed, right, "leads elsewhere"},
		{"127.0.0.1:2689", "http://x:s3cret@127.0.0.2:2689", Failed, right, "http://127.0.0.2:2689 leads elsewhere"},
		{"127.0.0.1:2689", "https://botwire.dev", Failed, right, "plain HTTP"},
		{"127.0.0.1:2689", "http://127.0.0.1:2689/memory", Failed, right, "more than an address"},
		{"127.0.0.1:2689", "127.0.0.1:2689", Failed, right, "no URL"},
		{"127.0.0.1:2689", "http://%zz", Failed, right, "no URL"},
		{"unix:///run/botwired.sock", "", Warning, "export BOTWIRED_LISTEN=127.0.0.1:2689", "do not connect to one"},
	} {
		e := newPatient(t, map[string]string{"listen": c.listen}, "BOTWIRE_URL="+c.url)
		wantFinding(t, []Finding{e.agentURL(t.Context())}, "BOTWIRE_URL", c.result, c.remedy, c.part)
	}
}

// doctor shows a token's file, not the token.
func TestDoctorOfTheTokenInBotwireURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	right := "export BOTWIRE_URL=http://x:$(cat " + file + ")@127.0.0.1:2689"
	for url, want := range map[string][2]string{
		"http://127.0.0.1:2689":          {"has no token", right},
		"http://x:other@127.0.0.1:2689":  {"has another token", right},
		"http://x:s3cret@127.0.0.1:2689": {"is the daemon's address", ""},
	} {
		e := newPatient(t, map[string]string{"listen": "0.0.0.0:2689", "auth.token_file": file}, "BOTWIRE_URL="+url)
		result := Failed
		if want[1] == "" {
			result = OK
		}
		wantFinding(t, []Finding{e.agentURL(t.Context())}, "BOTWIRE_URL", result, want[1], want[0])
	}
}
