package hook

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/callers"
	"decklog/internal/faults"
	"decklog/internal/ops"
	"decklog/internal/runs"
	"decklog/internal/workdir"
)

// LateAfter is how long after its process began a run may still lease: past it
// the harness may have given it up, and would drop what it prints.
const LateAfter = 3 * time.Second

// Patience is how long a run waits for a ledger that others hold: its harness
// waits as long. What it did not deliver comes with the next run.
const Patience = 2 * time.Second

// Run is one run of a hook.
type Run struct {
	Harness        string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        func(string) string
	// Bells and Beside are what lies beside the ledger, without opening it: while
	// a session's bell is silent there is nothing to do but to note that it was
	// seen. Without them the ledger is opened at every run.
	Bells  bell.Bells
	Beside Notes
	// Callers keep the key with which decklog's own calls are stamped.
	Callers callers.Callers
	// Open opens the ledger; what it costs is only paid when there is something
	// to do. It gives the notes beside it also when it fails.
	Open func() (ops.Operations, Notes, error)
	Now  func() events.Time
	// Age is how long ago this process began.
	Age func() time.Duration
	// Process finds the harness that this runs under.
	Process func(harness string) (events.Process, bool)
	// Code names an error for whoever reads of it in the notes.
	Code func(error) string
	// Went is told how each run went that takes part. It may be nil.
	Went func(harness string, how runs.Outcome)
}

// Notes is where a hook run leaves what it observed, and what went wrong.
type Notes interface {
	Busy(events.SessionID, events.Time) error
	Idle(events.SessionID, events.Time) error
	Forget(events.SessionID) error
	// Look is what was noted of the last look through the session's transcript.
	Look(events.SessionID) []byte
	NoteLook(events.SessionID, []byte) error
	// Delegate notes that a session lets a subagent work, or no more.
	Delegate(events.SessionID, bool) error
	Delegating(events.SessionID) bool
	Fault(now events.Time, harness, event, session, code, what string) error
}

// Do answers the hook. It never fails: see the package.
func (r *Run) Do() {
	if strings.EqualFold(r.Environ("DECKLOG"), "off") {
		return
	}
	v := &visit{Run: r, went: runs.Nothing}
	// A panic would end the process with exit code 2, and by that a hook forbids
	// its harness to go on: a prompt would be lost.
	defer func() {
		if p := recover(); p != nil {
			v.tell(fault{"panic", fmt.Sprint(p)})
		}
		if v.faulty {
			v.went = runs.Failed
		}
		if r.Went != nil {
			r.Went(r.Harness, v.went)
		}
	}()
	v.now = r.Now()
	v.began = v.now.Add(-r.Age())
	if err := v.work(); err != nil {
		v.tell(r.faultOf(err))
	}
}

// visit is a run at work.
type visit struct {
	*Run
	now, began events.Time // when this was first looked at, and when the process began
	in         input
	harness    *harness
	moment     moment
	ops        ops.Operations
	notes      Notes
	went       runs.Outcome
	faulty     bool // something went wrong, whatever it did besides
}

func (v *visit) session() events.SessionID { return events.SessionID(v.in.Session) }

// work goes through the run. The ledger is opened also to note a fault beside it.
func (v *visit) work() (err error) {
	wrong := v.hear()
	if wrong == nil && v.callsUs() {
		return v.stampCall()
	}
	if wrong == nil && v.moment == nothing {
		v.went = runs.Passed
		return nil
	}
	if wrong == nil && v.silent() {
		v.notes = v.Beside
		return v.note(false)
	}
	if v.ops, v.notes, err = v.Open(); err != nil {
		if wrong != nil {
			return wrong
		}
		return err
	}
	defer func() {
		if closing := v.ops.Close(); err == nil {
			err = closing
		}
	}()
	if wrong != nil {
		return wrong
	}
	return v.serve()
}

// silent says whether the session's bell does: then nothing waits for it. Its
// start and its end never trust the bell.
func (v *visit) silent() bool {
	switch {
	case v.Beside == nil, v.moment == start, v.moment == end, v.moment == before:
		return false
	case v.harness.delegates != "" && v.Beside.Delegating(v.session()):
		return false
	}
	return !v.Bells.Rings(v.in.Session, v.now.Std())
}

// hear takes in what the harness says, and which moment that is.
func (v *visit) hear() (err error) {
	if v.harness = find(v.Run.Harness); v.harness == nil {
		return fault{"unknown_harness", fmt.Sprintf("there is no harness %q; there are %s", v.Run.Harness, strings.Join(Harnesses(), ", "))}
	}
	if v.in, err = read(v.Stdin, v.harness.names); err != nil {
		return fault{"bad_input", err.Error()}
	}
	m, known := v.harness.events[v.in.Event]
	if !known {
		return fault{"unknown_event", fmt.Sprintf("%s has no event %q", v.harness.name, v.in.Event)}
	}
	if what := commands.CheckSessionID(v.in.Session); what != "" {
		return fault{"bad_input", what}
	}
	switch {
	case v.ofSubagent(): // runs its parent's hooks, and takes nothing
	case m == before && !v.delegates():
	default:
		v.moment = m
	}
	return nil
}

func (v *visit) ofSubagent() bool {
	return v.in.Agent != "" || v.harness.subagent != nil && v.harness.subagent(v.in.Transcript, v.in.Session)
}

// delegates says whether the tool at hand is the one by which a session lets a
// subagent work.
func (v *visit) delegates() bool {
	return v.harness.delegates != "" && v.in.Tool == v.harness.delegates
}

func (v *visit) serve() error {
	standing, policy, err := v.ops.Standing(v.session(), v.began)
	switch {
	case err != nil:
		return err
	case !v.takesPart(policy):
		v.went = runs.Ignored
		return v.ops.Ignore(ops.IgnoreRequest{Policy: policy.Sessions.Ignore, Roots: v.ignored(policy)}) // so that the next run need not ask
	case standing == ops.Ended:
		v.went = runs.Passed
		return nil
	case v.moment == end:
		v.went = runs.Ended
		return v.leave(standing)
	case v.moment == before && standing != ops.Here:
		v.went = runs.Passed
		return nil
	case v.moment == before:
		v.went = runs.Passed
		return v.notes.Delegate(v.session(), true)
	case v.moment == start, standing != ops.Here:
		if err := v.join(); err != nil {
			return err
		}
	}
	printed, err := v.deliver()
	if noting := v.note(printed); err == nil {
		err = noting
	}
	return err
}

// note leaves what was observed.
func (v *visit) note(printed bool) error {
	if err := v.observe(printed); err != nil {
		return fault{"notes", err.Error()}
	}
	return nil
}

// takesPart says whether the session's directory is not one that the policy ignores.
func (v *visit) takesPart(p events.Policy) bool {
	ignored := v.ignored(p)
	if len(ignored) == 0 {
		return true
	}
	dir := workdir.Of(v.in.Cwd).Dir
	return !slices.ContainsFunc(ignored, func(root string) bool { return bell.Under(dir, root) })
}

// ignored lists the directories whose sessions take no part, with their symbolic
// links resolved.
func (v *visit) ignored(p events.Policy) (roots []string) {
	for _, root := range p.Sessions.Ignore {
		if under, is := strings.CutPrefix(root, "~/"); is {
			root = filepath.Join(v.Environ("HOME"), under)
		}
		roots = append(roots, workdir.Of(root).Dir)
	}
	return roots
}

// join registers the session: at its start, and whenever a hook runs for one
// that is not registered, or ended before this run began.
func (v *visit) join() error {
	place := workdir.Of(v.in.Cwd)
	request := ops.JoinRequest{
		Session: v.in.Session, Harness: v.harness.name, Source: v.source(), Cwd: place.Dir, Repo: place.Repo, Branch: place.Branch,
		Title: cut(v.in.Title, commands.AttributeBytesMax), Transcript: v.in.Transcript,
	}
	if p, found := v.Process(v.harness.name); found {
		request.Process = &p
	}
	_, r, err := v.ops.Join(request)
	if r != nil {
		return refused(r)
	}
	return err
}

// leave ends the session. One that nobody knows has nothing to end: some
// harnesses tell of the end of a session that never had a turn.
func (v *visit) leave(standing ops.Standing) error {
	if standing == ops.Unknown {
		return nil
	}
	if err := v.seekAll(); err != nil {
		v.tell(v.faultOf(err)) // it is no reason to stay
	}
	reason := events.EndLeft
	if v.in.Reason == "clear" {
		reason = events.EndCleared
	}
	_, r, err := v.ops.Leave(ops.LeaveRequest{Asker: ops.Asker{As: v.in.Session}, Session: v.in.Session, Reason: reason})
	switch {
	case r != nil:
		return refused(r)
	case err != nil:
		return err
	}
	if err := errors.Join(v.notes.Forget(v.session()), v.Bells.Forget(v.in.Session)); err != nil {
		return fault{"notes", err.Error()}
	}
	return nil
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
	switch {
	case v.moment == stop && v.in.letsGo() && !late():
		v.went = runs.Passed
		return false, v.seekAll()
	case late():
		v.went = runs.Late
		return false, nil
	case slices.Contains(v.harness.deaf, v.moment), v.withSubagent():
		v.went = runs.Passed
		return false, nil
	}
	within := (LateAfter - v.Age()).Microseconds()
	request := ops.LeaseRequest{
		Asker: ops.Asker{As: v.in.Session}, Harness: v.harness.name, Hook: v.in.Event, Budget: v.harness.budget,
		Markup: v.harness.markup(v.moment), Stopping: v.moment == stop,
		Late: late, Within: &within,
	}
	if v.Bells == (bell.Bells{}) { // else the bell has said so already
		switch waits, err := v.ops.Waits(request); {
		case err != nil:
			return false, err
		case !waits:
			return false, v.seekAll()
		}
	}
	faults.Point("before-lease")
	offered, r, err := v.ops.Lease(request)
	switch {
	case err != nil:
		return false, err
	case r != nil:
		return false, refused(r)
	case offered.ID == "":
		seeking := v.seek(offered.Sought)
		if err := v.ops.Silence(v.session()); err != nil {
			return false, err
		}
		return false, seeking
	}
	faults.Point("leased")
	if err := v.print(offered.Text); err != nil {
		return false, fault{"print", fmt.Sprintf("print lease %s: %v", offered.ID, err)}
	}
	faults.Point("printed")
	_, r, err = v.ops.Confirm(ops.Asker{As: v.in.Session}, offered.ID)
	if r != nil {
		return true, refused(r)
	}
	v.went = runs.Delivered
	return true, err
}

// withSubagent says whether a tool may be a subagent's, which looks like one of
// the session's own: while the session lets one work, nothing is delivered in
// the middle of its turn. Its turn's end and its next prompt are its own again,
// should the subagent's end have been missed.
func (v *visit) withSubagent() bool {
	if v.harness.delegates == "" || !v.notes.Delegating(v.session()) {
		return false
	}
	if v.moment == tool && !v.delegates() {
		return true
	}
	_ = v.notes.Delegate(v.session(), false) // else the next run tries again
	return false
}

// print brings a text into the model's context.
func (v *visit) print(text string) error {
	return v.answer(v.harness.answer(v.in.Event, v.moment, text))
}

// observe notes whether the session is in a turn. What is printed at its stop
// makes it go on.
func (v *visit) observe(printed bool) error {
	switch {
	case v.moment == prompt, v.moment == tool, v.moment == stop && printed:
		return v.notes.Busy(v.session(), v.now)
	case v.moment == stop, v.moment == start && v.in.Source != string(events.SourceCompact):
		return v.notes.Idle(v.session(), v.now)
	}
	return nil
}
