package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	httpask "github.com/botwired/botwired/proof/ask"
)

// pythonClient is BotWire's SDK.
func pythonClient(python, script string) sayer {
	return func(ctx context.Context, url string, messages int, amid func()) (start time.Time, all []said, err error) {
		cmd := exec.CommandContext(ctx, python, script, strconv.Itoa(messages), strconv.Itoa(messages/2))
		cmd.Env = []string{"BOTWIRE_URL=" + url, "PATH=" + os.Getenv("PATH")}
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		goOn, err := cmd.StdinPipe()
		if err != nil {
			return start, nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return start, nil, err
		}
		if err := cmd.Start(); err != nil {
			return start, nil, err
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var one said
			switch lines.Text() {
			case `"start"`:
				start = time.Now()
				continue
			case `"pause"`:
				amid()
				_, err = io.WriteString(goOn, "\n")
			default:
				err = json.Unmarshal(lines.Bytes(), &one)
				all = append(all, one)
			}
			if err != nil {
				return start, nil, errors.Join(fmt.Errorf("%w after %q", err, lines.Text()), cmd.Process.Kill(), cmd.Wait())
			}
		}
		if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
			return start, nil, fmt.Errorf("%s: %w\n%s", script, err, complaints.Bytes())
		}
		return start, all, nil
	}
}

// goClient does what the SDK does, without the time that Python takes for it.
func goClient(timeout time.Duration) sayer {
	return func(ctx context.Context, url string, messages int, amid func()) (start time.Time, all []said, err error) {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: timeout}
		target := url + "/memory/conversation/conversation"
		start = time.Now()
		for n := range messages {
			if n == messages/2 {
				amid()
			}
			one := said{Begin: time.Since(start).Seconds()}
			if err := addMessage(ctx, client, target, n); err != nil {
				one.Error = err.Error()
			}
			if err := ctx.Err(); err != nil {
				return start, nil, err
			}
			one.End = time.Since(start).Seconds()
			all = append(all, one)
		}
		return start, all, nil
	}
}

// addMessage reads the history, appends a message and writes all of it back.
func addMessage(ctx context.Context, client *http.Client, target string, n int) error {
	got, err := httpask.Once(ctx, client, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	var entry struct{ Value string }
	history := []json.RawMessage{}
	if got.Status != http.StatusNotFound {
		if got.Status != http.StatusOK {
			return fmt.Errorf("GET: HTTP %d", got.Status)
		}
		if err := errors.Join(json.Unmarshal(got.Body, &entry), json.Unmarshal([]byte(entry.Value), &history)); err != nil {
			return err
		}
	}
	message := fmt.Sprintf(`{"type": "human", "data": {"content": "The train to Lisbon leaves at seven in the evening, and I `+
		`would like a seat at the window, please: number %d.", "additional_kwargs": {}, "response_metadata": {}, "type": "human"}}`, n)
	value, err := json.Marshal(append(history, json.RawMessage(message)))
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"value": string(value)})
	if err != nil {
		return err
	}
	put, err := httpask.Once(ctx, client, http.MethodPut, target, body)
	if err == nil && put.Status != http.StatusOK {
		err = fmt.Errorf("PUT: HTTP %d", put.Status)
	}
	return err
}
