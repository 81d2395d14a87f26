//go:build unix

package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/seal"
)

func TestDoctorOfTheKeyFile(t *testing.T) {
	wantFinding(t, examine(t, newPatient(t, nil)), "key file", NotApplicable, "", "no namespace is sealed")
	file := filepath.Join(t.TempDir(), "keys")
	with := func() []Finding { return examine(t, newPatient(t, map[string]string{"seal.key_file": file})) }
	wantFinding(t, with(), "key file", Failed, "", "from its backup")
	no(t, os.WriteFile(file, seal.Generate(), 0o600))
	wantFinding(t, with(), "key file", OK, "", "seals with key ")
	no(t, os.Chmod(file, 0o644))
	wantFinding(t, with(), "key file", Failed, "", "mode 0644")
}

// doctor finds entries under a key that the file lacks, and a plain twin.
func TestDoctorOfSealedNamespaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	old := string(seal.Generate())
	no(t, os.WriteFile(file, []byte(old), 0o600))
	mine, err := seal.Load(file)
	no(t, err)
	_, fresh, _ := strings.Cut(string(seal.Generate()), "\nseal ")
	other := filepath.Join(t.TempDir(), "keys")
	no(t, os.WriteFile(other, []byte(strings.Replace(old, "\nseal ", "\nopen ", 1)+"seal "+fresh), 0o600))
	theirs, err := seal.Load(other)
	no(t, err)
	n := mine.For("ns")
	name, _ := n.Key("k")
	for what, c := range map[string]struct {
		by     *seal.Keys // nil: nobody
		plain  time.Time
		result Result
		part   string
	}{
		"all is well":   {mine, time.Time{}, OK, "nothing plain"},
		"a plain value": {nil, time.Time{}, Failed, "ns: 1 entry, such as k: it is not sealed"},
		"a plain name":  {mine, time.Time{}, Failed, "1 entry, such as k: no key opens its name"},
		"another key":   {theirs, time.Time{}, Failed, "with key " + theirs.ID()},
		"a plain twin":  {mine, time.Now(), Warning, "ns: 1 entry in the plain namespace, for everybody to read, written until "},
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method != http.MethodGet:
					t.Errorf("doctor has sent a %s", r.Method)
				case r.URL.Path == "/memory/"+n.Name() && what == "a plain name":
					fmt.Fprintf(w, `{"namespace":%q,"count":1,"keys":[{"key":"k","bytes":1,"updated_at":1}]}`, n.Name())
				case r.URL.Path == "/memory/"+n.Name():
					fmt.Fprintf(w, `{"namespace":%q,"count":1,"keys":[{"key":%q,"bytes":1,"updated_at":1}]}`, n.Name(), name)
				case r.URL.Path == "/memory/ns" && !c.plain.IsZero():
					fmt.Fprintf(w, `{"namespace":"ns","count":1,"keys":[{"key":"p","bytes":1,"updated_at":%d}]}`, c.plain.Unix())
				case r.URL.Path == "/memory/ns":
					fmt.Fprint(w, `{"namespace":"ns","count":0,"keys":[]}`)
				case r.URL.Path == "/memory/"+n.Name()+"/"+name:
					value := "plain"
					if c.by != nil {
						value = c.by.For("ns").Seal("k", seal.Value{})
					}
					fmt.Fprintf(w, `{"namespace":%q,"key":%q,"value":%q,"created_at":1,"updated_at":1}`, n.Name(), name, value)
				default:
					absent(w, r)
				}
			}))
			defer server.Close()
			e := newPatient(t, map[string]string{
				"upstream.url": server.URL, "seal.key_file": file, "namespaces": `[{"match": "ns", "sealed": true}, {"match": "other-*", "sealed": true}]`,
			})
			found := e.sealed(t.Context())
			remedy := ""
			if c.result != OK {
				remedy = "botwired seal "
			}
			if len(found) != 1 || found[0].Result != c.result || !strings.Contains(found[0].Text, c.part) || !strings.HasPrefix(found[0].Remedy, remedy) {
				t.Errorf("%+v", found)
			}
		})
	}
}

// doctor also looks at the namespaces that only a pattern of the configuration seals: the daemon knows them.
func TestDoctorOfNamespacesByPattern(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	no(t, os.WriteFile(file, seal.Generate(), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace, rows := path.Base(r.URL.Path), ""
		if namespace == "chats" {
			rows = `{"key":"p","bytes":1,"updated_at":1}`
		}
		fmt.Fprintf(w, `{"namespace":%q,"count":%d,"keys":[%s]}`, namespace, min(len(rows), 1), rows)
	}))
	defer server.Close()
	daemon := newDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_botwired/namespaces" { // its status has nothing to report of them
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"namespaces":[{"namespace":"chats"}],"next":null}`)
	})
	e := newPatient(t, map[string]string{
		"listen": daemon, "upstream.url": server.URL, "seal.key_file": file, "namespaces": `[{"match": "chat*", "sealed": true}]`,
	})
	if found := e.sealed(t.Context()); len(found) != 1 || !strings.Contains(found[0].Text, "chats: 1 entry in the plain namespace") {
		t.Errorf("%+v", found)
	}
}

// A daemon seals what its file said at its start: a file that was changed since seals nothing yet.
func TestDoctorOfADaemonThatIsOlderThanItsFile(t *testing.T) {
	keys, file := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "config.yaml")
	no(t, os.WriteFile(keys, seal.Generate(), 0o600))
	no(t, os.WriteFile(file, []byte("seal:\n  key_file: "+keys+"\nnamespaces:\n  - match: \"mine-*\"\n    sealed: true\n"), 0o600))
	changed := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	no(t, os.Chtimes(file, changed, changed))
	ask := func(started time.Time) []Finding {
		return examine(t, withDaemonAnd(t, nil, []string{"BOTWIRED_CONFIG=" + file}, `"pending":0,`, `"pending":0,"started_at":"`+started.Format(time.RFC3339)+`",`))
	}
	wantFinding(t, ask(changed.Add(-time.Second)), "sealed", Warning, "botwired serve", file, "was changed after the daemon's start")
	wantFinding(t, ask(changed.Add(time.Second)), "sealed", NotApplicable, "", "no namespace is known")
}
