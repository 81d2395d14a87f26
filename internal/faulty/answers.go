package faulty

import (
	"io"
	"net/http"
	"strings"
)

// answers are given without the service.
var answers = map[Mode]func(http.ResponseWriter, *http.Request){
	Throttles: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		reply(w, http.StatusTooManyRequests, "application/json", `{"detail":"Rate limit exceeded"}`)
	},
	Portal: func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "text/html", "<h1>Welcome</h1>") },
	Redirects: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, portalPath, http.StatusFound)
	},
	Misnames: misname,
}

// misname answers as BotWire would, but about another entry.
func misname(w http.ResponseWriter, r *http.Request) {
	const about = `"namespace":"elsewhere","key":"another"`
	answer := `{` + about + `,"value":"another's","created_at":1.5,"updated_at":1.5}`
	switch {
	case r.Method == http.MethodPut:
		answer = `{` + about + `,"stored":true,"bytes":9}`
	case r.Method == http.MethodDelete:
		answer = `{"deleted":true,` + about + `}`
	case strings.Count(r.URL.Path, "/") < 3:
		answer = `{"namespace":"elsewhere","count":0,"keys":[]}`
	}
	reply(w, http.StatusOK, "application/json", answer)
}

func reply(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may have gone
}
