package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/attach"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/keyname"
	"github.com/botwired/botwired/internal/words"
)

type rewindFlags struct {
	before, author                  string
	byAuthor, all, dry, yes, asJSON bool
}

const (
	rewindNamed = 10
	rewindLeft  = 1000
)

func (p *Program) rewind(ctx context.Context, c *attach.Client, namespace string, f *rewindFlags) error {
	query := url.Values{"namespace": {namespace}, "before": {timeBefore(f.before)}}
	switch {
	case f.all:
		query.Set("all_authors", "true")
	case f.byAuthor:
		query.Set("author", f.author)
	}
	var seen api.Rewind
	shown, err := c.Read(ctx, api.Request{Path: api.Surface("undo", "namespace"), Query: query, Within: byHandTime + byHandGrace}, &seen)
	if err != nil {
		return err
	}
	changes := seen.Restored+seen.Deleted > 0
	if f.dry && f.asJSON {
		return term.JSON(p.Stdout, shown.Body)
	}
	if f.dry || !changes && !f.asJSON {
		fmt.Fprintln(p.Stdout, term.Printable(rewindText(&seen)))
		p.nameLeft(&seen.RewindCounts)
		return nil
	}
	if !f.yes && changes {
		if err := p.Confirm(ctx, rewindText(&seen)+" Do it?"); err != nil {
			return err
		}
	}
	done := api.Rewound{Namespace: namespace, RewindCounts: api.RewindCounts{Same: seen.Same, Left: seen.Left, LeftEntries: seen.LeftEntries}}
	if changes {
		if done.RewindCounts, err = p.rewindAll(ctx, c, &seen, query); err != nil {
			return fmt.Errorf("%w; %s undone so far: run the same command again to continue",
				err, words.Plural(done.Restored+done.Deleted, "entry"))
		}
	}
	if f.asJSON {
		body, err := json.Marshal(&done)
		return errors.Join(err, term.JSON(p.Stdout, body))
	}
	fmt.Fprintf(p.Stdout, "undone: %s restored, %s deleted\n", words.Plural(done.Restored, "entry"), words.Plural(done.Deleted, "entry"))
	p.nameLeft(&done.RewindCounts)
	return nil
}

func (p *Program) rewindAll(ctx context.Context, c *attach.Client, seen *api.Rewind, query url.Values) (sum api.RewindCounts, err error) {
	query.Set("as_of", strconv.FormatUint(seen.AsOf, 10))
	query.Set("before", strconv.FormatFloat(seen.Before, 'f', 6, 64))
	if seen.Author != nil {
		query.Set("author", *seen.Author)
	}
	sum.LeftEntries = []api.LeftEntry{}
	defer p.ShowLine("")
	for {
		var page api.Rewound
		if _, err := c.Read(ctx, byHand("undo/namespace", query), &page); err != nil {
			return sum, err
		}
		sum.Restored, sum.Deleted = sum.Restored+page.Restored, sum.Deleted+page.Deleted
		sum.Same, sum.Left = sum.Same+page.Same, sum.Left+page.Left
		sum.LeftEntries = append(sum.LeftEntries, page.LeftEntries...)
		sum.LeftEntries = sum.LeftEntries[:min(len(sum.LeftEntries), rewindLeft)]
		if page.Next == nil {
			return sum, nil
		}
		query.Set("after", *page.Next)
		p.ShowLine(fmt.Sprintf("%s of %d undone", words.Plural(sum.Restored+sum.Deleted, "entry"), seen.Restored+seen.Deleted))
	}
}

// timeBefore returns the time of a flag: a duration is that long ago.
func timeBefore(text string) string {
	if d, err := config.ParseDuration(text); err == nil && d >= 0 && strings.Trim(text, ".0123456789") != "" {
		return strconv.FormatFloat(float64(time.Now().Add(-d).UnixMicro())/1e6, 'f', 6, 64)
	}
	return text
}

// isTime reports whether the daemon takes a time that timeBefore has returned.
func isTime(text string) bool {
	_, notNumber := strconv.ParseFloat(text, 64)
	_, notTime := time.Parse(time.RFC3339, text)
	return notNumber == nil || notTime == nil
}

func rewindText(seen *api.Rewind) string {
	if seen.Restored+seen.Deleted == 0 {
		nothing := fmt.Sprintf("nothing to undo in %s since %s", seen.Namespace, term.Plain(term.Unix(seen.Before)))
		if seen.Author != nil && seen.Authors != nil && seen.Authors[*seen.Author] == 0 {
			return nothing + ": no write of " + programs(*seen.Author) + " is known to have changed an entry since" + othersSince(seen.Authors)
		}
		return nothing
	}
	whose := "as it was at " + term.Plain(term.Unix(seen.Before))
	if seen.Author != nil {
		whose += ", without the writes of " + programs(*seen.Author) + " since"
	}
	named := make([]string, 0, rewindNamed)
	for _, change := range seen.Changes[:min(rewindNamed, len(seen.Changes))] {
		named = append(named, keyname.Format(change.Key))
	}
	if seen.Restored+seen.Deleted > len(named) {
		named = append(named, term.Ellipsis)
	}
	return fmt.Sprintf("%s %s: %s to restore, %s to delete, %d to leave: %s.", seen.Namespace, whose,
		words.Plural(seen.Restored, "entry"), words.Plural(seen.Deleted, "entry"), seen.Left, strings.Join(named, ", "))
}

func authorName(author string) string { return cmp.Or(author, "a program without a name") }

// programs names those that an undo by an author takes back: without a name, they are all that have none.
func programs(author string) string { return cmp.Or(author, "programs without a name") }

// othersSince names the programs that have written since.
func othersSince(authors map[string]int) string {
	named := make([]string, 0, rewindNamed)
	for _, author := range slices.Sorted(maps.Keys(authors)) {
		if len(named) == rewindNamed {
			named = append(named, term.Ellipsis)
			break
		}
		named = append(named, authorName(author))
	}
	if len(named) == 0 {
		return ""
	}
	return ". These programs have written: " + strings.Join(named, ", ")
}

func (p *Program) nameLeft(counts *api.RewindCounts) {
	if counts.Left == 0 {
		return
	}
	fmt.Fprintf(p.Stdout, "left as it is: %s\n", words.Plural(counts.Left, "entry"))
	for _, l := range counts.LeftEntries[:min(rewindNamed, len(counts.LeftEntries))] {
		fmt.Fprintf(p.Stdout, "  %s: %s\n", term.Printable(keyname.Format(l.Key)), term.Printable(l.Why))
	}
	if more := counts.Left - rewindNamed; more > 0 {
		fmt.Fprintf(p.Stdout, "  and %d more: --json names them\n", more)
	}
}
