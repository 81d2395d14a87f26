package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/drill"
)

const (
	// drillLasts is about how long a drill of a throwaway daemon takes.
	drillLasts    = 25 * time.Second
	minDrillLasts = 5 * time.Second
	maxDrillLasts = time.Hour
	// liveDrillLasts is the same for one of the running daemon, and maxLiveDrillLasts as much as
	// the daemon allows.
	liveDrillLasts    = 16 * time.Second
	maxLiveDrillLasts = 2 * time.Minute
)

// drillPlan is what the flags of drill ask for.
type drillPlan struct {
	live, yes, json bool
	lasts           time.Duration
	seed            uint64
}

func newDrillCommand(p *process, settings *settingFlags) *cobra.Command {
	plan := &drillPlan{}
	cmd := &cobra.Command{
		Use:     "drill",
		Short:   "Rehearse an outage, and audit what becomes of the writes",
		GroupID: groupCare,
		Long: "Rehearse an outage. botwired starts a daemon with an empty data directory and an upstream of its own, on\n" +
			"loopback. Clients write, read back and delete, while upstream times out, cuts connections, goes away,\n" +
			"throttles and lies, and the daemon is killed and started again. The audit says what they saw, and what has\n" +
			"become of every acknowledged write. Neither your daemon nor your upstream has a part in it.\n\n" +
			"With --live it is the running daemon: upstream goes away and throttles for the namespace botwired-drill\n" +
			"only. Other namespaces notice nothing. The drill deletes its entries at the end. A write that has failed\n" +
			"waits for its next attempt, as in a real outage: that may add some seconds.\n\n" +
			"Exit 0 if the books balance and nothing was wrong, 1 if anything was.",
		Example: "  botwired drill\n" +
			"  botwired drill --for 2m --seed 7 --json > audit.json\n" +
			"  botwired drill --live",
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.BoolVar(&plan.live, "live", false, "drill the running daemon, in a namespace of its own")
	flags.BoolVar(&plan.yes, "yes", false, "with --live: do not ask")
	flags.DurationVar(&plan.lasts, "for", 0, "about how long it takes (default 25s, and with --live 16s)")
	flags.Uint64Var(&plan.seed, "seed", 0, "what the clients do, and in which order (default random)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		plan.json = *asJSON
		if err := plan.complete(flags.Changed("seed")); err != nil {
			return err
		}
		t := &drillTeller{process: p, shows: p.isTerminal(p.stderr)}
		audit, err := plan.run(cmd.Context(), p, settings, t)
		t.end()
		if err != nil {
			return err
		}
		return reportDrill(p, audit, plan)
	}
	return cmd
}

// complete fills in what the flags leave open.
func (d *drillPlan) complete(seeded bool) error {
	byDefault, most := drillLasts, maxDrillLasts
	if d.live {
		byDefault, most = liveDrillLasts, maxLiveDrillLasts
	}
	if d.lasts == 0 {
		d.lasts = byDefault
	}
	if d.lasts < minDrillLasts || d.lasts > most {
		return usagef("--for = %s: expected from %s to %s", config.FormatDuration(d.lasts), config.FormatDuration(minDrillLasts), config.FormatDuration(most))
	}
	if !seeded {
		d.seed = rand.Uint64N(1 << 32)
	}
	return nil
}

// run drills a throwaway daemon, or the running one.
func (d *drillPlan) run(ctx context.Context, p *process, settings *settingFlags, t *drillTeller) (*drill.Audit, error) {
	c, err := settings.connect()
	switch {
	case err != nil:
		return nil, err // also where it does not matter: nobody expects a wrong flag to be taken
	case !d.live:
		return drillThrowaway(ctx, d, t.tell)
	case !d.yes && (!p.isTerminal(p.stdin) || !p.isTerminal(p.stderr)):
		return nil, usagef("this drills the daemon that your agents use, and there is no terminal to ask at: expected --yes too")
	}
	return d.ask(ctx, p, c, t.tell)
}

// ask has the running daemon drill itself, once a person has agreed.
func (d *drillPlan) ask(ctx context.Context, p *process, c *client, tell func(drill.Event)) (audit *drill.Audit, err error) {
	body, err := c.do(ctx, request{method: http.MethodGet, path: surface("status")})
	if err != nil {
		return nil, err
	}
	s, err := readStatus(c, body)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("For about %s, botwired at %s acts as if %s were away and throttled, for the namespace botwired-drill only. "+
		"Other namespaces notice nothing; botwired makes at most %d writes upstream, and deletes its entries at the end.",
		config.FormatDuration(d.lasts), c.listen, s.Upstream.URL, liveWrites)
	if !d.yes {
		if err := p.confirm(ctx, said+" Go on?"); err != nil {
			return nil, err
		}
	}
	query := url.Values{"for": {d.lasts.String()}, "seed": {strconv.FormatUint(d.seed, 10)}}
	failed := errors.New("the daemon has ended the drill without an audit")
	err = c.lines(ctx, request{method: http.MethodPost, path: surface("drill"), query: query}, func(line []byte) error {
		var e drill.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return c.foreign()
		}
		switch e.Event {
		case drill.EventFailed:
			failed = fmt.Errorf("the drill could not go on: %s", printable(e.Text))
		case drill.EventAudit:
			audit = e.Audit
		}
		tell(e)
		return nil
	})
	if err == nil && audit == nil {
		err = failed
	}
	return audit, err
}
