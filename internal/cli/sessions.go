package cli

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/internal/workdir"
	"decklog/projections"
)

func join() *Command {
	return &Command{
		Name: "join", Group: "sessions", Usage: "[--session ID --harness H --cwd D --branch B --title T] [--seat S]",
		Short: "take part as a session, and perhaps occupy a seat",
		Long: `Registers a session, so that it can be found and written to. With hooks installed a
harness does this by itself; by hand it serves a test, a script, or to take a seat.
A seat is a long-lived name: what is sent to @SEAT waits for whoever occupies it.
Directory, repository and branch are found out where they are not given.`,
		Examples: []string{`decklog join --session 5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90 --harness claude-code`, `decklog join --seat smith`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("session", "", "the harness's full `ID` of the session (default: the one that this runs in)")
			r.text("harness", "", "`HARNESS`: claude-code, codex, gemini, opencode, or another word")
			r.text("cwd", "", "the `DIR` that the session works in (default: this one)")
			r.text("branch", "", "the `BRANCH` (default: found out)")
			r.text("title", "", "a `TITLE` for people")
			r.text("seat", "", "occupy `SEAT`")
		},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			id := r.str("session")
			if id == "" {
				id = r.own()
			}
			if id == "" {
				return misused("--session is missing, and this runs in no session that can be found out")
			}
			dir := r.str("cwd")
			if dir == "" {
				dir, _ = r.Getwd()
			}
			place := workdir.Of(dir)
			branch := r.str("branch")
			if branch == "" {
				branch = place.Branch
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Join(ops.JoinRequest{
				Asker: r.asker(), Session: id, Harness: r.str("harness"), Source: events.SourceManual, Cwd: place.Dir, Repo: place.Repo,
				Branch: branch, Title: r.str("title"), Seat: strings.TrimPrefix(r.str("seat"), "@"),
				FoundOut: r.str("cwd") == "" && r.str("branch") == "",
			})
			return r.answer(receipt, refusal, err, func() string {
				text := "joined: session " + receipt.Session
				if receipt.Seat != "" {
					text += " on the seat @" + receipt.Seat
				}
				return text
			})
		},
	}
}

// own is the session that names itself: with --as, or in the environment.
func (r *run) own() string {
	for _, id := range []string{r.named(), r.Environ("CLAUDE_CODE_SESSION_ID"), r.Environ("CODEX_THREAD_ID"), r.Environ("GEMINI_SESSION_ID"), r.Environ("DECKLOG_SESSION")} {
		if id != "" && !strings.HasPrefix(id, "@") {
			return id
		}
	}
	return ""
}

func leave() *Command {
	return &Command{
		Name: "leave", Group: "sessions", Usage: "[--session ID]",
		Short: "end a session, and free its seat",
		Long: `Ends the calling session, or the one named. What it had taken for its seat or person
and not confirmed goes back there; what was sent to the session itself waits for a
resume, and is reported to its sender as undelivered after ten minutes.`,
		Examples: []string{`decklog leave`, `decklog leave --session 5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90`},
		Flags:    func(f *flag.FlagSet, r *run) { r.text("session", "", "the session's full `ID` (default: the caller)") },
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			receipt, refusal, err := r.ops.Leave(ops.LeaveRequest{
				Asker: r.asker(), Session: r.str("session"), Reason: events.EndLeft, FreesSeat: true,
			})
			return r.answer(receipt, refusal, err, func() string { return "left: session " + receipt.ID })
		},
	}
}

func peers() *Command {
	return &Command{
		Name: "peers", Group: "sessions", Usage: "[--session ID] [--repo R] [--harness H] [--at MOMENT] [--at-least POSITION]",
		Short: "who takes part, and how that is known",
		Long: `Lists the sessions that take part, with the evidence of their presence and its age:
live is what is known of the process, busy and idle what its hooks noted last. The
machine is the one that the session joined on, and only there can its process be seen. A
title or a branch is no address: send to the full session id, or to @name.`,
		Examples: []string{`decklog peers --repo .`, `decklog peers --session 5d0c33e1 --json`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("session", "", "only sessions whose id begins with `ID`, the ended ones too")
			r.text("repo", "", "only sessions on the repository of `DIR`")
			r.text("harness", "", "only sessions of `HARNESS`")
			r.moment()
		},
		Run: func(r *run) error {
			if err := r.want(0, 0, ""); err != nil {
				return err
			}
			repo := r.str("repo")
			if repo != "" {
				if place := workdir.Of(repo); place.Repo != "" {
					repo = place.Repo
				}
			}
			if err := r.open(); err != nil {
				return err
			}
			view, refusal, err := r.ops.Peers(ops.PeersRequest{Session: r.str("session"), Repo: repo, Harness: r.str("harness"), At: r.str("at")})
			return r.show(view, refusal, err, func() error {
				var b strings.Builder
				fmt.Fprintf(&b, "%s, as of position %d\n", plural(len(view.Peers), "session"), view.At)
				for _, p := range view.Peers {
					fmt.Fprintf(&b, "%s  %-11s %-4s %s%s\n    %s; %d waiting\n    %s\n", p.Session, or(flat(p.Harness), "-"), presence(p),
						flat(or(p.Repo, p.Cwd)), seat(p), strings.TrimSpace(or(flat(p.Branch), "no branch")+" "+flat(clip(p.Title, 80))), p.Waiting, evidence(p))
				}
				return r.write([]byte(render.Terminal(b.String())))
			})
		},
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// flat keeps a text that stands in a list to its line.
func flat(s string) string { return strings.NewReplacer("\n", " ", "\t", " ").Replace(s) }

func presence(p projections.Peer) string {
	switch {
	case !p.Live:
		return "gone"
	case p.Busy:
		return "busy"
	}
	return "idle"
}

// evidence says what a session's presence is known by, of which machine, and how old
// that is.
func evidence(p projections.Peer) string {
	says := p.Evidence
	if p.EvidenceAgeMS != nil {
		age := (time.Duration(*p.EvidenceAgeMS) * time.Millisecond).Truncate(time.Second)
		if p.Left == nil {
			says += "; seen"
		}
		says += fmt.Sprintf(" %s ago", age)
	}
	if p.Device != "" {
		says = "on " + flat(p.Device) + ": " + says
	}
	return says
}

func seat(p projections.Peer) string {
	if p.Seat == "" {
		return ""
	}
	return "  @" + p.Seat
}
