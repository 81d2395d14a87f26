package wiretest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// patience bounds one exchange, so that a server that hangs fails its test and no other.
const patience = 30 * time.Second

// send makes the request on a connection of its own. It is written as it was recorded: the target
// untouched, and no header added but Host, Content-Length and, with a token, Authorization.
func (r request) send(base, ns, token string) (answer, error) {
	at, err := url.Parse(base)
	if err != nil {
		return answer{}, err
	}
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", at.Host)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, err
	}
	if _, err := conn.Write(r.bytes(at.Host, ns, token)); err != nil {
		return answer{}, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: r.Method})
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	return outcome(response, body, base, ns), nil
}

func (r request) bytes(host, ns, token string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, strings.ReplaceAll(r.Target, "NS", ns), host)
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, r.Headers[name])
	}
	if r.Body == nil {
		b.WriteString("\r\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(*r.Body))
	b.Write(*r.Body)
	return b.Bytes()
}

// outcome puts a response into the recordings' form.
func outcome(response *http.Response, body []byte, base, ns string) answer {
	a := answer{Status: response.StatusCode, Headers: make(map[string]string)}
	recorded := strings.NewReplacer(ns, "NS", base, "BASE")
	for _, name := range []string{"content-type", "allow", "location"} {
		if values := response.Header.Values(name); len(values) > 0 {
			a.Headers[name] = recorded.Replace(strings.Join(values, ", "))
		}
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(string(body), "\uFFFD"), ns, "NS")
	if err := json.Unmarshal([]byte(text), &a.JSON); err != nil {
		a.Text = text
		return a
	}
	a.JSON = withoutTimes(a.JSON, float64(time.Now().UnixMicro())/1e6)
	a.Order = names(text)
	return a
}

// withoutTimes replaces times close to now by <now>.
func withoutTimes(value any, now float64) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = withoutTimes(value[i], now)
		}
	case map[string]any:
		for name, v := range value {
			f, ok := v.(float64)
			if ok && (name == "created_at" || name == "updated_at") && math.Abs(f-now) < closeToNow.Seconds() {
				value[name] = "<now>"
			} else {
				value[name] = withoutTimes(v, now)
			}
		}
	}
	return value
}

// names are the members of the outermost object as they come, nil if there is none.
func names(text string) []string {
	tokens := json.NewDecoder(strings.NewReader(text))
	if t, err := tokens.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	list := []string{}
	for tokens.More() {
		name, err := tokens.Token()
		if err != nil {
			return list
		}
		list = append(list, name.(string))
		var value json.RawMessage
		if err := tokens.Decode(&value); err != nil {
			return list
		}
	}
	return list
}
