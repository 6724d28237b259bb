package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/workdir"
)

// LateAfter is how long after its process began a run may still lease: past it
// the harness may have given it up, and would drop what it prints.
const LateAfter = 3 * time.Second

// Run is one run of a hook.
type Run struct {
	Harness        string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        func(string) string
	// Open opens the ledger; what it costs is only paid when there is something to do.
	Open func() (*ops.Ops, Notes, error)
	// Age is how long ago this process began.
	Age func() time.Duration
	// Process finds the harness that this runs under.
	Process func(harness string) (events.Process, bool)
}

// Notes is where a hook run leaves what it observed, and what went wrong.
type Notes interface {
	Busy(events.SessionID, events.Time) error
	Idle(events.SessionID, events.Time) error
	Fault(now events.Time, harness, event, session, code, what string) error
}

// Do answers the hook. It never fails: see the package.
func (r *Run) Do() {
	if strings.EqualFold(r.Environ("DECKLOG"), "off") {
		return
	}
	h := find(r.Harness)
	if h == nil {
		r.tell(nil, 0, input{}, fault{"unknown_harness", fmt.Sprintf("there is no harness %q; there are %s", r.Harness, strings.Join(Harnesses(), ", "))})
		return
	}
	in, err := read(r.Stdin)
	m, known := h.events[in.Event]
	switch {
	case err != nil:
		r.fail(in, fault{"bad_input", err.Error()})
		return
	case !known:
		r.fail(in, fault{"unknown_event", fmt.Sprintf("%s has no event %q", h.name, in.Event)})
		return
	case commands.CheckSessionID(in.Session) != "":
		r.fail(in, fault{"bad_input", commands.CheckSessionID(in.Session)})
		return
	case m == nothing, in.Agent != "", h.subagent(in.Transcript, in.Session):
		return // a subagent runs its parent's hooks, and takes nothing
	}
	o, notes, err := r.Open()
	if err != nil {
		r.tell(notes, 0, in, fault{"ledger", err.Error()})
		return
	}
	v := visit{Run: r, harness: h, in: in, moment: m, ops: o, notes: notes, now: o.World.Now()}
	if err := v.serve(); err != nil {
		r.tell(notes, v.now, in, faultOf(err))
	}
	if err := o.Ledger.Close(); err != nil {
		r.tell(notes, v.now, in, fault{"ledger", err.Error()})
	}
}

// fault is what went wrong in a run.
type fault struct{ code, says string }

func (f fault) Error() string { return f.says }

func faultOf(err error) fault {
	if f, is := err.(fault); is {
		return f
	}
	return fault{"failed", err.Error()}
}

func refused(r *commands.Refusal) error { return fault{string(r.Code), r.Message} }

// fail tells of a run that never came to open the ledger; it is opened for the
// notes beside it.
func (r *Run) fail(in input, f fault) {
	o, notes, err := r.Open()
	if err != nil {
		r.tell(notes, 0, in, f)
		return
	}
	r.tell(notes, o.World.Now(), in, f)
	_ = o.Ledger.Close()
}

func (r *Run) tell(notes Notes, now events.Time, in input, f fault) {
	fmt.Fprintf(r.Stderr, "decklog hook %s: %s: %s\n", r.Harness, f.code, f.says)
	if notes != nil {
		if err := notes.Fault(now, r.Harness, in.Event, in.Session, f.code, f.says); err != nil {
			fmt.Fprintf(r.Stderr, "decklog hook %s: note the fault: %v\n", r.Harness, err)
		}
	}
}

// visit is a run that has something to do.
type visit struct {
	*Run
	harness *harness
	in      input
	moment  moment
	ops     *ops.Ops
	notes   Notes
	now     events.Time
}

func (v *visit) session() events.SessionID { return events.SessionID(v.in.Session) }

func (v *visit) serve() error {
	takesPart, err := v.takesPart()
	if err != nil || !takesPart {
		return err
	}
	if v.moment == end {
		reason := events.EndLeft
		if v.in.Reason == "clear" {
			reason = events.EndCleared
		}
		_, r, err := v.ops.Leave(ops.LeaveRequest{Session: v.in.Session, Reason: reason})
		if r != nil && r.Code != commands.NotFound {
			return refused(r)
		}
		return err
	}
	if joined, err := v.join(); err != nil || !joined {
		return err
	}
	printed, err := v.deliver()
	v.observe(printed)
	return err
}

// takesPart says whether the session's directory is not one that the policy ignores.
func (v *visit) takesPart() (bool, error) {
	inForce, err := v.ops.Policy()
	if err != nil {
		return false, err
	}
	ignored := inForce.Policy.Sessions.Ignore
	if len(ignored) == 0 {
		return true, nil
	}
	dir := workdir.Of(v.in.Cwd).Dir
	return !slices.ContainsFunc(ignored, func(root string) bool {
		if under, is := strings.CutPrefix(root, "~/"); is {
			root = filepath.Join(v.Environ("HOME"), under)
		}
		root = workdir.Of(root).Dir
		return dir == root || strings.HasPrefix(dir, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
	}), nil
}

// join registers the session at its start, and whenever a hook runs for one
// that is not registered, or ended before this run began. False says that it
// ended since, and the run is for nobody.
func (v *visit) join() (bool, error) {
	if v.moment != start {
		standing, err := v.ops.Standing(v.session(), v.now.Add(-v.Age()))
		if err != nil || standing != ops.Missing {
			return standing == ops.Here, err
		}
	}
	place := workdir.Of(v.in.Cwd)
	request := ops.JoinRequest{
		Session: v.in.Session, Harness: v.harness.name, Source: v.source(), Cwd: place.Dir, Repo: place.Repo, Branch: place.Branch,
		Title: v.in.Title, Transcript: v.in.Transcript,
	}
	if p, found := v.Process(v.harness.name); found {
		request.Process = &p
	}
	_, r, err := v.ops.Join(request)
	if r != nil {
		return false, refused(r)
	}
	return err == nil, err
}

func (v *visit) source() events.Source {
	switch s := events.Source(v.in.Source); {
	case v.moment != start:
		return events.SourceResume
	case s == events.SourceResume, s == events.SourceClear, s == events.SourceCompact, s == events.SourceFork:
		return s
	}
	return events.SourceStartup
}

// deliver leases, prints and confirms. An error in printing means no confirm:
// the same messages come again, as a repeat.
func (v *visit) deliver() (printed bool, err error) {
	late := func() bool { return v.Age() > LateAfter }
	if v.moment == stop && v.in.StopHookActive || late() {
		return false, nil
	}
	request := ops.LeaseRequest{
		Asker: ops.Asker{As: v.in.Session}, Harness: v.harness.name, Hook: v.in.Event, Budget: v.harness.budget,
		Stopping: v.moment == stop, Late: late,
	}
	if waits, err := v.ops.Waits(request); err != nil || !waits {
		return false, err
	}
	offered, r, err := v.ops.Lease(request)
	switch {
	case err != nil:
		return false, err
	case r != nil:
		return false, refused(r)
	case offered.ID == "":
		return false, nil
	}
	if err := v.print(offered.Text); err != nil {
		return false, fault{"print", fmt.Sprintf("print lease %s: %v", offered.ID, err)}
	}
	_, r, err = v.ops.Confirm(ops.Asker{As: v.in.Session}, offered.ID)
	if r != nil {
		return true, refused(r)
	}
	return true, err
}

// print writes the whole answer at once.
func (v *visit) print(text string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v.harness.answer(v.in.Event, v.moment, text)); err != nil {
		return err
	}
	_, err := v.Stdout.Write(b.Bytes())
	return err
}

// observe notes whether the session is in a turn. What is printed at its stop
// makes it go on.
func (v *visit) observe(printed bool) {
	var err error
	switch {
	case v.moment == prompt, v.moment == tool, v.moment == stop && printed:
		err = v.notes.Busy(v.session(), v.now)
	case v.moment == stop, v.moment == start && v.in.Source != string(events.SourceCompact):
		err = v.notes.Idle(v.session(), v.now)
	}
	if err != nil {
		fmt.Fprintf(v.Stderr, "decklog hook %s: note: %v\n", v.Run.Harness, err)
	}
}
