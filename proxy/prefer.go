package proxy

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// maxPreferredWait bounds how long a write can wait for upstream before it is
// answered: a caller's preference is not to hold a connection for ever.
const maxPreferredWait = time.Minute

// preferredWait is how long the caller prefers to wait for upstream (RFC 7240, section
// 4.3), at most maxPreferredWait; ok is false if it prefers nothing. Of repeated
// preferences the first counts, and one that makes no sense is none.
func preferredWait(lines []string) (wait time.Duration, ok bool) {
	for _, line := range lines {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0, false
			}
			return time.Duration(min(n, uint64(maxPreferredWait/time.Second))) * time.Second, true
		}
	}
	return 0, false
}
