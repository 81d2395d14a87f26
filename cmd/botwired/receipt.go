package main

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// maxReceiptWait is the longest that the daemon lets a request for a receipt wait.
const maxReceiptWait = time.Minute

func newReceiptCommand(settings *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "receipt SEQ",
		Short:   "Show what has become of a write",
		GroupID: groupDaily,
		Example: "  botwired receipt 17\n" +
			"  botwired receipt 17 --wait 30s",
		Long: "Show what has become of an acknowledged write: pending, settled, superseded by a later write, or dead.\n" +
			"SEQ is the number in the write's Botwired-Write header. A receipt is kept for a day after\n" +
			"the write has ended, and the last 1,000,000 at most. The exit code is 0 whatever the state is.",
		Args: arguments(1, 1),
	}
	asJSON := jsonFlag(cmd)
	wait := cmd.Flags().String("wait", "", "how long to wait for the end of a pending write: a duration, or a number of seconds")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := strconv.ParseUint(args[0], 10, 64); err != nil {
			return usagef("SEQ = %q: expected the number of a write, as its Botwired-Write header has it", args[0])
		}
		r := request{method: http.MethodGet, path: surface("receipts", args[0])}
		if *wait != "" {
			d, err := parseTime("wait", *wait, maxReceiptWait)
			if err != nil {
				return err
			}
			r.query, r.patience = url.Values{"wait": {d.String()}}, d
		}
		return settings.show(cmd.Context(), r, func(w io.Writer, c *client, body []byte) error {
			if *asJSON {
				return printJSON(w, body)
			}
			return printReceipt(w, c, body)
		})
	}
	return cmd
}

func printReceipt(w io.Writer, c *client, body []byte) error {
	var receipt struct {
		Seq       cell `json:"seq"`
		Namespace cell `json:"namespace"`
		Key       cell `json:"key"`
		Op        cell `json:"op"`
		State     cell `json:"state"`
		WrittenAt cell `json:"written_at"`
		SettledAt cell `json:"settled_at"`
		By        cell `json:"by"`
		Reason    cell `json:"reason"`
	}
	if err := c.decode(body, &receipt); err != nil {
		return err
	}
	facts := [][2]string{
		{"seq", string(receipt.Seq)}, {"namespace", string(receipt.Namespace)}, {"key", string(receipt.Key)},
		{"op", string(receipt.Op)}, {"state", string(receipt.State)}, {"written", moment(w, receipt.WrittenAt)},
	}
	for _, fact := range [][2]string{
		{"ended", moment(w, receipt.SettledAt)}, {"by", string(receipt.By)}, {"reason", string(receipt.Reason)},
	} {
		if fact[1] != "" {
			facts = append(facts, fact)
		}
	}
	return printFacts(w, facts)
}
