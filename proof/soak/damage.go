package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/proof/supervisor"
)

const (
	sector = 512
	// lastSecond is what an unclean end may cost without a word if the end of the last log is damaged: a second by
	// contract 4, and another one because a busy machine is slow.
	lastSecond = 2 * time.Second
	// keptAtMost is how many damaged directories a start keeps. With as many beside the journal, it mends no more.
	keptAtMost = 2
	// startsAtMost bounds the starts, refused ones and others, that one revival may take.
	startsAtMost = 6
	// exitMissing is the code with which recover says that something is or may be missing.
	exitMissing = 3
)

// harm is the damage to the journal's files, and what became of it.
type harm struct {
	open  []damage  // since the journal was last known to be sound
	ended time.Time // when the daemon ended uncleanly; zero if it was stopped

	damages    int
	ends       int // of daemons that have met damage
	mendings   int
	refusals   int
	cautious   int // refusals after which recover missed nothing
	recoveries int
	lost       int // entries that recoveries said to be lost, or that may pass for a torn end
}

// damage is one damaged file.
type damage struct {
	file    string
	flipped bool // one bit, not a sector
}

func (d damage) isLog() bool { return strings.HasSuffix(d.file, ".log") }

func (h *harm) String() string {
	return fmt.Sprintf("%d damages to the journal's files, which ended the daemon %d times; %d starts mended the journal, and %d were refused, %d of them though recover missed nothing; %d recoveries; %d entries lost as allowed",
		h.damages, h.ends, h.mendings, h.refusals, h.cautious, h.recoveries, h.lost)
}

// enough is a number of damages after which each outcome must have been seen. A fifth of it are kills enough for a damage.
const enough = 50

// tried returns an error if there was no damage, or if an outcome is missing after enough of them.
func (h *harm) tried(kills int) error {
	if h.damages == 0 && kills >= enough/5 {
		return errors.New("none of the journal's files was damaged")
	}
	if h.damages >= enough && (h.ends == 0 || h.mendings == 0 || h.refusals == 0 || h.recoveries == 0) {
		return fmt.Errorf("%d damages have not led to every outcome", h.damages)
	}
	return nil
}

func (s *soak) journal() string { return filepath.Join(s.disk.dir, "data", "journal") }

// files returns the names of the journal's tables or logs, in order.
func (s *soak) files(suffix string) []string {
	all, _ := filepath.Glob(filepath.Join(s.journal(), "*"+suffix))
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	slices.Sort(all)
	return all
}

// damage damages one of the journal's files as a bad disk does, whether a daemon runs or not.
func (s *soak) damage() error {
	suffix := []string{".sst", ".log"}[s.rng.IntN(2)]
	files := s.files(suffix)
	if len(files) == 0 {
		return nil
	}
	file := files[s.rng.IntN(len(files))]
	if suffix == ".log" && s.rng.IntN(2) == 0 {
		file = files[len(files)-1]
	}
	d := damage{file, s.rng.IntN(2) == 0}
	done, err := d.in(s.journal(), s.rng)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the daemon was faster
	}
	if done {
		s.harm.damages++
		s.harm.open = append(s.harm.open, d)
		s.load.shortage.Add(2) // receipts may be gone
	}
	return err
}

// in damages the file, unless there is nothing in it.
func (d damage) in(dir string, rng *rand.Rand) (done bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, d.file), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		return false, err
	}
	used := len(text)
	for used > 0 && text[used-1] == 0 { // a log has its space before its records
		used--
	}
	if used == 0 {
		return false, nil
	}
	at := rng.IntN(used)
	if rng.IntN(2) == 0 { // where the newest records are, or the index of a table
		at = used - 1 - rng.IntN(min(used, 4096))
	}
	if d.flipped {
		_, err = f.WriteAt([]byte{text[at] ^ 1<<rng.IntN(8)}, int64(at))
		return err == nil, err
	}
	from := at / sector * sector
	to := min(from+sector, len(text))
	_, err = f.WriteAt(make([]byte, to-from), int64(from))
	return err == nil, err
}

// end kills the daemon, or stops it. It is no error if the daemon meets damage first and ends by itself.
func (s *soak) end(kill bool) error {
	d := s.daemon.Load()
	if kill {
		err := d.Kill()
		s.harm.ended = d.ExitedAt()
		return err
	}
	err := supervisor.Stop(d.Process, stopLimit)
	if s.harm.ended = (time.Time{}); err != nil && !s.foundNoRoom(d) {
		return s.metDamage(d, err)
	}
	return nil
}

// foundNoRoom reports whether the daemon has ended because its log found no room, or no inode for half a minute: contract 3
// permits that.
func (s *soak) foundNoRoom(d *daemon) bool {
	select {
	case <-d.Exited():
	default:
		return false
	}
	wasFull := s.isFull() || d.ExitedAt().Before(s.freed)
	return wasFull && d.Code() > 0 && strings.Contains(d.Tail(), "the disk failed") && strings.Contains(d.Tail(), "no space left")
}

// metDamage returns nil if the daemon has ended because it has met damage, and err otherwise.
func (s *soak) metDamage(d *daemon, err error) error {
	select {
	case <-d.Exited():
	default:
		return err
	}
	if len(s.harm.open) == 0 || d.Code() <= 0 || !strings.Contains(d.Tail(), corrupt) {
		return err
	}
	s.harm.ends++
	s.harm.ended = d.ExitedAt()
	return nil
}

// corrupt is in the daemon's last line if it has met damage.
const corrupt = "journal corrupt"

// alive is nil if the daemon runs, or runs again after it has met damage or found no room for a record.
func (s *soak) alive(ctx context.Context) error {
	d := s.daemon.Load()
	err := d.Alive()
	if err == nil {
		return nil
	}
	if s.foundNoRoom(d) {
		s.harm.ended = d.ExitedAt()
	} else if err := s.metDamage(d, err); err != nil {
		return err
	}
	return s.revive(ctx, false)
}

// revive starts the daemon after damage. A first life, which has no callers and no upstream, must have all that the
// daemon owes: see examine. If all is set, the journal is sound afterwards.
func (s *soak) revive(ctx context.Context, all bool) error {
	ctx = context.WithoutCancel(ctx)
	if len(s.harm.open) == 0 {
		return s.restart(ctx)
	}
	if err := errors.Join(s.free(), s.keepEvidence()); err != nil { // a start that mends waits for room
		return err
	}
	s.load.shortage.Add(2)
	before := s.up.mode.Load()
	if err := s.up.be(mode{Mode: faulty.Refuses}); err != nil {
		return err
	}
	may := s.mayLose()
	if err := s.liveAlone(ctx, &may); err != nil {
		return err
	}
	if all && len(s.harm.open) > 0 {
		if err := s.recoverWhole(ctx); err != nil {
			return err
		}
		if err := s.liveAlone(ctx, &may); err != nil {
			return err
		}
	}
	if before != nil {
		if err := s.up.be(*before); err != nil {
			return err
		}
	}
	d, err := s.begin(ctx, s.daemon.Load().Address(), &may)
	if err == nil {
		s.daemon.Store(d)
	}
	return err
}

// mayLose says what contract 4 permits to be lost without a word, before the daemon starts.
func (s *soak) mayLose() (may loss) {
	may.damage = slices.Clone(s.harm.open)
	logs := s.files(".log")
	for _, d := range s.harm.open {
		if !s.harm.ended.IsZero() && len(logs) > 0 && d.file == logs[len(logs)-1] {
			may.since = s.harm.ended.Add(-lastSecond)
		}
	}
	return may
}

// liveAlone has a daemon that nobody knows, and examines what it has. It may meet damage, as any.
func (s *soak) liveAlone(ctx context.Context, may *loss) error {
	for range startsAtMost {
		d, err := s.begin(ctx, faulty.OwnHost()+":0", may)
		if err != nil {
			return err
		}
		err = s.examine(ctx, d, may)
		if err != nil && d.Alive() != nil {
			if err = s.metDamage(d, err); err == nil {
				continue
			}
		}
		return errors.Join(err, d.Kill())
	}
	return errors.New("the daemon ends again and again because it meets damage")
}

// begin starts a daemon, until it has opened its journal: one that is refused does what its line says.
func (s *soak) begin(ctx context.Context, address string, may *loss) (*daemon, error) {
	for range startsAtMost {
		d, err := s.startAt(ctx, address)
		if err == nil {
			if err = s.opened(ctx, d); err == nil {
				return d, s.sawMending(d)
			}
			err = errors.Join(err, d.Alive(), d.Kill())
		}
		switch text := err.Error(); {
		case len(s.harm.open) == 0 || !strings.Contains(text, corrupt):
			return nil, err
		case strings.Contains(text, "the disk has damaged the journal"): // a merge met it at once
			s.harm.ends++
			continue
		case !strings.Contains(text, "botwired recover"):
			return nil, err
		}
		s.harm.refusals++
		if err := s.obey(ctx, err.Error(), may); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("starts are refused again and again")
}

// opened waits until a daemon has opened its journal, and knows all pending writes.
func (s *soak) opened(ctx context.Context, d *daemon) error {
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	for {
		now, err := statusOf(ctx, s.callerOf(d))
		if err == nil && !now.Rebuilding {
			return nil
		}
		if d.Alive() != nil || tasks.Sleep(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("the daemon does not open its journal: %w", errors.Join(err, ctx.Err()))
		}
	}
}

func (s *soak) callerOf(d *daemon) *caller { return newCaller(d.URL, s.tokens.token) }

// sawMending counts a start that has mended the journal. It must keep the damaged directory, with a report by which
// nothing is missing.
func (s *soak) sawMending(d *daemon) error {
	for _, line := range d.Lines() {
		var event struct{ Msg, Kept string }
		if json.Unmarshal([]byte(line), &event) != nil || !strings.HasPrefix(event.Msg, "the journal was damaged, and is mended") {
			continue
		}
		s.harm.mendings++
		if len(s.harm.open) == 0 {
			return fmt.Errorf("a start mends a sound journal:\n%s", line)
		}
		var r recovery
		text, err := os.ReadFile(event.Kept + ".json")
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return fmt.Errorf("the report of a mending: %w", err)
		}
		if r.Missing.any() {
			s.breach("a start has mended the journal although something is missing: %s", text)
		}
		return s.sound(event.Kept, keptAtMost)
	}
	return nil
}

// sound notes that the journal was made anew. The damaged one must be there, and is one of so many.
func (s *soak) sound(kept string, atMost int) error {
	s.harm.open, s.anew = nil, true
	if _, err := os.Stat(filepath.Join(kept, "MARK")); err != nil {
		return fmt.Errorf("the damaged directory is not kept: %w", err)
	}
	all := s.kept()
	if len(all) > atMost {
		s.breach("a start has kept one more damaged directory: %v", all)
	}
	if s.rng.IntN(3) == 0 || len(all) > keptAtMost {
		return s.forgetKept()
	}
	return nil
}

// kept returns the damaged directories beside the journal.
func (s *soak) kept() []string {
	all, _ := filepath.Glob(s.journal() + ".damaged-*")
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, ".json") })
}

// forgetKept deletes them, as a person does who has checked the disk.
func (s *soak) forgetKept() error {
	all, err := filepath.Glob(s.journal() + ".damaged-*")
	for _, name := range all {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}

// recovery is what botwired recover says.
type recovery struct {
	Healthy bool
	Found   string
	Copy    string
	Missing missing
	code    int
	text    string
}

type missing struct {
	Known, Differs bool
	Pending        int
	DeadLetters    int `json:"dead_letters"`
	Changes        uint64
	LastSeq        uint64 `json:"last_seq"`
	Records, Files []string
}

func (m *missing) any() bool {
	return m.unclear() || m.Pending+m.DeadLetters+len(m.Records) > 0
}

// unclear reports whether more may be missing, or have come back, than is named.
func (m *missing) unclear() bool {
	return !m.Known || m.Differs || m.Changes > 0 || m.LastSeq > 0 || len(m.Files) > 0
}

// obey does what the line of a refused start says: it deletes the directories that were kept, or recovers the journal.
func (s *soak) obey(ctx context.Context, refusal string, may *loss) error {
	full := strings.Contains(refusal, "mends it again once")
	if full && len(s.kept()) < keptAtMost {
		s.breach("a start is refused for %v: %s", s.kept(), refusal)
	}
	if full && s.rng.IntN(2) == 0 {
		return s.forgetKept()
	}
	r, err := s.recover(ctx)
	if err != nil {
		return err
	}
	switch {
	case r.Healthy:
		s.breach("recover calls a journal sound with which a start was refused: %s", refusal)
		return errors.New("no start is possible")
	case r.code == 0 && !full:
		// A start reads as Pebble does, up to damage in a log and not past a table's damaged index; recover reads all files.
		s.harm.cautious++
	case r.code == exitMissing:
		may.said = append(may.said, r)
	}
	return nil
}

// recoverWhole has recover read all of a journal with which a daemon has started: every pending write and dead letter
// must be there.
func (s *soak) recoverWhole(ctx context.Context) error {
	r, err := s.recover(ctx)
	if err == nil && r.code != 0 {
		s.breach("a start was not refused though something may be missing: %s", r.text)
	}
	s.harm.open = nil
	return err
}

// recover recovers the journal as a user does.
func (s *soak) recover(ctx context.Context) (*recovery, error) {
	dir := filepath.Dir(s.journal())
	cmd := exec.CommandContext(ctx, s.binary, "recover", "--data-dir", dir, "--json") //nolint:gosec // the daemon that the caller built
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	r := &recovery{text: string(out)}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if r.code = exit.ExitCode(); r.code != exitMissing {
			return r, fmt.Errorf("recover ends with %d: %s", r.code, exit.Stderr)
		}
	} else if err != nil {
		return r, err
	}
	if err := json.Unmarshal(out, r); err != nil {
		return r, fmt.Errorf("recover: %w: %.300s", err, out)
	}
	if r.Missing.any() != (r.code == exitMissing) && !r.Healthy {
		s.breach("recover ends with %d: %s", r.code, out)
	}
	if r.Healthy {
		return r, nil
	}
	s.harm.recoveries++
	return r, s.sound(r.Copy, keptAtMost+1)
}

// keepEvidence copies the journal as the next start finds it.
func (s *soak) keepEvidence() error {
	err := os.RemoveAll(s.evidence)
	if err != nil {
		return err
	}
	return os.CopyFS(s.evidence, os.DirFS(s.journal()))
}

// breach notes a breach of contract 4, and keeps the journal for whoever looks for its cause.
func (s *soak) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if kept, err := os.MkdirTemp("", "botwired-soak-breach-"); err == nil && os.CopyFS(filepath.Join(kept, "journal"), os.DirFS(s.evidence)) == nil {
		text += fmt.Sprintf(" (the damage is %v; the journal as it was before: %s)", s.harm.open, kept)
	}
	s.load.wrong("contract 4: %s", text)
}
