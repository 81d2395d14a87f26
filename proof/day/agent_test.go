package day

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// memory answers one agent's requests.
type memory interface {
	// do makes a request. The condition is a header, such as If-Match: "…", or "". The body of the answer is
	// valid until the next request.
	do(method, path, body, condition string) (*answer, error)
	// rest says that no request comes for a while.
	rest()
}

type answer struct {
	status int
	etag   string
	body   []byte
}

// The pauses of an agent: its model thinks before it answers, and its user before the next question.
const (
	leastThought, mostThought = 2 * time.Second, 8 * time.Second
	leastPause, mostPause     = 5 * time.Second, 60 * time.Second
	// turnTakes is more than a turn takes, with the waits for its memory.
	turnTakes = 70 * time.Second
)

// historyCap is how many messages a conversation keeps.
const historyCap = 40

// kind is how much an agent has to do on a day.
type kind struct {
	share                 float64 // of the agents
	sessions              int     // a day
	leastTurns, mostTurns int     // a session
}

var kinds = []kind{{0.7, 2, 4, 10}, {0.25, 4, 8, 20}, {0.05, 8, 60, 100}}

// agent has a namespace of its own, as BotWire's SDK gives it. Each session is a conversation: for a
// turn, it reads the history, has its model think, and adds the question and the answer as BotWire's
// class for LangChain does: it reads, appends and writes the whole history back, for each of them. Now and
// then it counts something, writes a note, reads one, and lists its keys. Its draws do not depend on
// the answers: the same seed always makes the same requests.
type agent struct {
	namespace string
	draw      *rand.Rand
	kind      kind
	memory    memory
	holds     map[string]string // the values by key, as on the wire, that the memory has acknowledged
	history   []string          // the messages of the present conversation
	counted   int
	notes     []string // keys
	tally     tally
}

// tally is what an agent has asked for, and what came of it.
type tally struct {
	reads, writes int
	failed        int           // writes that were refused, and are lost
	waited        time.Duration // for all answers
	far           time.Duration // of that, for upstream
}

func newAgent(seed uint64, number int) *agent {
	draw := rand.New(rand.NewPCG(seed, uint64(number)))
	of, at := kinds[len(kinds)-1], draw.Float64()
	for _, k := range kinds {
		if at < k.share {
			of = k
			break
		}
		at -= k.share
	}
	return &agent{namespace: fmt.Sprintf("agent-%04d", number), draw: draw, kind: of, holds: make(map[string]string)}
}

// live has the agent's sessions from now on, one in each of equal parts of the time.
func (a *agent) live(whole time.Duration) error {
	begin := time.Now()
	sessions := max(1, int(float64(a.kind.sessions)*whole.Hours()/24))
	part := whole / time.Duration(sessions)
	for i := range sessions {
		turns := a.kind.leastTurns + a.draw.IntN(a.kind.mostTurns-a.kind.leastTurns+1)
		turns = min(turns, int(part/turnTakes)-1)
		idle := part - time.Duration(turns)*turnTakes
		time.Sleep(time.Until(begin.Add(time.Duration(i)*part + time.Duration(a.draw.Int64N(int64(idle))))))
		if err := a.session(i, turns); err != nil {
			return fmt.Errorf("%s, session %d: %w", a.namespace, i, err)
		}
		a.memory.rest()
	}
	return nil
}

func (a *agent) session(number, turns int) error {
	a.history = nil
	if a.chance(0.5) {
		if err := a.list(); err != nil {
			return err
		}
	}
	conversation := fmt.Sprintf("chat-%d", number)
	for range turns {
		if err := a.turn(conversation); err != nil {
			return err
		}
		time.Sleep(a.between(leastPause, mostPause))
	}
	return nil
}

func (a *agent) turn(conversation string) error {
	if _, err := a.get(conversation); err != nil {
		return err
	}
	time.Sleep(a.between(leastThought, mostThought))
	question, reply := a.message("human", 80, 300), a.message("ai", 200, 1200)
	for _, m := range []string{question, reply} {
		if err := a.add(conversation, m); err != nil {
			return err
		}
	}
	if a.chance(1.0 / 3) {
		if err := a.count(); err != nil {
			return err
		}
	}
	if a.chance(0.1) {
		key := fmt.Sprintf("note-%d", len(a.notes))
		a.notes = append(a.notes, key)
		if _, err := a.put(key, `"`+a.text(50, 500)+`"`, ""); err != nil {
			return err
		}
	}
	if n := a.draw.IntN(5 * max(1, len(a.notes))); n < len(a.notes) { // a fifth of the turns
		_, err := a.get(a.notes[n])
		return err
	}
	return nil
}

// add appends a message to the conversation.
func (a *agent) add(conversation, message string) error {
	if _, err := a.get(conversation); err != nil {
		return err
	}
	next := append(a.history[max(0, len(a.history)-historyCap+1):len(a.history):len(a.history)], message)
	kept, err := a.put(conversation, `"[`+strings.Join(next, ",")+`]"`, "")
	if kept {
		a.history = next
	}
	return err
}

// count adds one to the counter, if nobody else has written it meanwhile.
func (a *agent) count() error {
	now, err := a.get("counter")
	if err != nil {
		return err
	}
	condition := "If-None-Match: *"
	if now.status == http.StatusOK {
		condition = "If-Match: " + now.etag
	}
	kept, err := a.put("counter", `"`+strconv.Itoa(a.counted+1)+`"`, condition)
	if kept {
		a.counted++
	}
	return err
}

// get reads a key, and expects what the memory has acknowledged.
func (a *agent) get(key string) (*answer, error) {
	got, err := a.ask(http.MethodGet, "/"+key, "", "")
	a.tally.reads++
	if err != nil {
		return nil, err
	}
	value, ok := a.holds[key]
	switch {
	case !ok && got.status == http.StatusNotFound:
	case ok && got.status == http.StatusOK && bytes.Contains(got.body, []byte(`"value":`+value+`,`)):
	default:
		return nil, fmt.Errorf("GET %s was answered %d %.300q, and it is %.300q", key, got.status, got.body, value)
	}
	return got, nil
}

// put writes a key. A memory that has no quota left refuses the write, and it is lost.
func (a *agent) put(key, value, condition string) (kept bool, err error) {
	got, err := a.ask(http.MethodPut, "/"+key, `{"value":`+value+`}`, condition)
	a.tally.writes++
	switch {
	case err != nil:
		return false, err
	case got.status == http.StatusOK:
		a.holds[key] = value
		return true, nil
	case got.status == http.StatusTooManyRequests:
		a.tally.failed++
		return false, nil
	}
	return false, fmt.Errorf("PUT %s was answered %d %.300q", key, got.status, got.body)
}

// list lists the keys, and expects those that the memory has.
func (a *agent) list() error {
	got, err := a.ask(http.MethodGet, "", "", "")
	a.tally.reads++
	if err != nil {
		return err
	}
	if n := bytes.Count(got.body, []byte(`"key":`)); got.status != http.StatusOK || n != len(a.holds) {
		return fmt.Errorf("LIST was answered %d with %d keys, and there are %d", got.status, n, len(a.holds))
	}
	return nil
}

// ask makes a request. The agent waits for it in virtual time, as for a service far away, and in real
// time, as for the daemon's work: no real time passes in the one, and no virtual time in the other.
func (a *agent) ask(method, path, body, condition string) (*answer, error) {
	began, real := time.Now(), realTime()
	got, err := a.memory.do(method, "/memory/"+a.namespace+path, body, condition)
	far := time.Since(began)
	a.tally.far += far
	a.tally.waited += far + realTime() - real
	return got, err
}

func (a *agent) chance(p float64) bool { return a.draw.Float64() < p }

func (a *agent) between(least, most time.Duration) time.Duration {
	return least + time.Duration(a.draw.Int64N(int64(most-least)))
}

// message is one as BotWire's class for LangChain keeps it: JSON in a JSON string.
func (a *agent) message(kind string, least, most int) string {
	return `{\"type\":\"` + kind + `\",\"content\":\"` + a.text(least, most) + `\"}`
}

// text is a part of one long text: JSON escapes nothing in it.
func (a *agent) text(least, most int) string {
	length := least + a.draw.IntN(most-least)
	at := a.draw.IntN(len(prose) - length)
	return prose[at : at+length]
}

// prose is long enough for all texts, and compresses about as badly as words do.
var prose = func() string {
	draw, b := rand.New(rand.NewPCG(1, 1)), strings.Builder{}
	for b.Len() < 64<<10 {
		for range 2 + draw.IntN(9) {
			b.WriteByte("etaoinshrdlucmfwypvbgkjqxz"[min(draw.IntN(26), draw.IntN(26))])
		}
		b.WriteByte(' ')
	}
	return b.String()
}()
