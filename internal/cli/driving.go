package cli

import (
	"flag"
	"fmt"
	"strings"

	"decklog/commands"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/projections"
)

func driver() *Command {
	return &Command{
		Name: "driver", Group: "driving", Usage: "THREAD [--why] [--at MOMENT] [--at-least POSITION]",
		Short: "which seat drives a thread, and why",
		Long: `Says which seat drives a thread, by the first of these that applies: a person's sticker,
an accepted hand-off, the only seat that posted, a seat's sticker, a mirror, the area
rule. With --why it lists the events that decide, in their order. With --at it is
replayed to that moment. Looking changes nothing.`,
		Examples: []string{`decklog driver THREAD --why`, `decklog driver THREAD --at 42 --json`},
		Flags: func(f *flag.FlagSet, r *run) {
			r.toggle("why", "list the events that decide")
			r.moment()
		},
		Run: func(r *run) error {
			if err := r.want(1, 1, "the id of a thread or message"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			view, refusal, err := r.ops.Driver(ops.DriverRequest{ID: r.args[0], At: r.str("at")})
			return r.show(view, refusal, err, func() error { return r.write([]byte(sayDriver(view, r.on("why")))) })
		},
	}
}

func sayDriver(v projections.DriverView, why bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "thread %s: %s\n", v.Thread, drivenBy(v.Driver))
	if why {
		for _, w := range v.Why {
			fmt.Fprintf(&b, "  %d  %s  %s by %s: %s\n", w.Position, w.Time, w.Type, w.By, render.Terminal(w.Says))
		}
	}
	if v.Amend != nil {
		fmt.Fprintf(&b, "The area rule said %s, and a person %s: perhaps the content map should send such roots there.\n", v.Amend.From, v.Amend.To)
	}
	return b.String()
}

func drivenBy(d projections.DriverShown) string {
	if d.Seat == nil {
		return "no seat drives it"
	}
	by := *d.Source
	if *d.Detail != by {
		by += ", " + *d.Detail
	}
	return fmt.Sprintf("driven by @%s (%s) since %s", *d.Seat, by, *d.Since)
}

// sub runs one of a command's own commands, which its first argument names.
func (r *run) sub(run map[string]func() error) error {
	if len(r.args) == 0 {
		return misused("say which: %s", strings.Join(r.command.Words, ", "))
	}
	do := run[r.args[0]]
	if do == nil {
		return misused("%q is none of %s", r.args[0], strings.Join(r.command.Words, ", "))
	}
	r.args = r.args[1:]
	return do()
}

func sayDriving(s ops.DrivingReceipt) string {
	var b strings.Builder
	if s.ID != "" {
		fmt.Fprintf(&b, "%s: %s, in thread %s\n", s.State, s.ID, s.Thread)
	} else {
		fmt.Fprintf(&b, "thread %s\n", s.Thread)
	}
	b.WriteString(drivenBy(s.Driver))
	if s.Says != "" {
		b.WriteString("\n" + render.Terminal(s.Says))
	}
	return b.String()
}

// driven prints the receipt of what changes who drives.
func (r *run) driven(receipt ops.DrivingReceipt, refusal *commands.Refusal, err error) error {
	return r.answer(receipt, refusal, err, func() string { return sayDriving(receipt) })
}

func sticker() *Command {
	return &Command{
		Name: "sticker", Group: "driving", Usage: "place|remove THREAD SEAT", Words: []string{"place", "remove"},
		Short: "put a seat's mark on a thread's root, or take it off",
		Long: `A sticker on the root of a thread names the seat that drives it. A person may place
any, and then that seat drives at once, and what the old driver owed in the thread goes
with it; a person takes off their own or, having none there, a seat's. A seat
places only its own, in a thread that it drives: it does so by itself when it posts.
SEAT is a seat's name, or that of any of its stickers.`,
		Examples: []string{`decklog sticker place THREAD trinity`, `decklog sticker remove THREAD trinity`},
		Run: func(r *run) error {
			do := func(op func(ops.Operations, ops.StickerRequest) (ops.DrivingReceipt, *commands.Refusal, error)) func() error {
				return func() error {
					if err := r.want(2, 2, "a thread and a seat"); err != nil {
						return err
					}
					if err := r.open(); err != nil {
						return err
					}
					return r.driven(op(r.ops, ops.StickerRequest{Asker: r.asker(), Thread: r.args[0], Seat: r.args[1]}))
				}
			}
			return r.sub(map[string]func() error{"place": do(ops.Operations.PlaceSticker), "remove": do(ops.Operations.RemoveSticker)})
		},
	}
}

func handoff() *Command {
	return &Command{
		Name: "handoff", Group: "driving", Usage: "offer THREAD --to SEAT --reason R [--link L] | accept|decline|close HANDOFF",
		Words: []string{"offer", "accept", "decline", "close"},
		Short: "hand the work of a thread over to another seat",
		Long: `The driver offers a thread's work to another seat, with a reason and perhaps a link.
Nothing moves until that seat accepts; then it drives at once, and what the old driver
owed goes with it. Declined, nothing changes. An offer lapses when the driver is moved
by another act. An accepted hand-off is owed until one of the two seats, or a person,
closes it.`,
		Examples: []string{
			`decklog handoff offer THREAD --to trinity --reason "guest-card delivery is yours" --link https://example.org/alert/17`,
			`decklog handoff accept HANDOFF`, `decklog handoff decline HANDOFF --reason "not my lane"`, `decklog handoff close HANDOFF`,
		},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("to", "", "the `SEAT` that is asked")
			r.text("reason", "", "why: `TEXT`, a line or two")
			r.text("link", "", "where to read on: `LINK`")
		},
		Run: func(r *run) error {
			one := func(op func(ops.Operations, ops.HandoffRequest) (ops.DrivingReceipt, *commands.Refusal, error)) func() error {
				return func() error {
					if err := r.want(1, 1, "the id of a hand-off"); err != nil {
						return err
					}
					if err := r.open(); err != nil {
						return err
					}
					return r.driven(op(r.ops, ops.HandoffRequest{Asker: r.asker(), Handoff: r.args[0], Reason: []byte(r.str("reason"))}))
				}
			}
			return r.sub(map[string]func() error{
				"offer": func() error {
					if err := r.want(1, 1, "the id of a thread"); err != nil {
						return err
					}
					if r.str("to") == "" {
						return misused("--to is missing: the seat that is asked")
					}
					if err := r.open(); err != nil {
						return err
					}
					return r.driven(r.ops.OfferHandoff(ops.OfferRequest{
						Asker: r.asker(), Thread: r.args[0], To: r.str("to"), Reason: []byte(r.str("reason")), Link: r.str("link"),
					}))
				},
				"accept": one(ops.Operations.AcceptHandoff), "decline": one(ops.Operations.DeclineHandoff), "close": one(ops.Operations.CloseHandoff),
			})
		},
	}
}

func route() *Command {
	return &Command{
		Name: "route", Group: "driving", Usage: "THREAD MSG route|stay|unavailable",
		Short: "say whether a person's mention moves a thread",
		Long: `Records the verdict on a message in which a person mentions one seat that does not
drive. route moves the thread: the stickers and what the old driver owed go with it at
once, and the new seat drives from its first post on (or at once, where it has posted or
no seat has). stay and unavailable move nothing. One verdict a message. Where a
classifier is configured it is asked by the process that sent the message; by hand only
the driver's seat or a person judges.`,
		Examples: []string{`decklog route THREAD MESSAGE route`, `decklog route THREAD MESSAGE stay`},
		Run: func(r *run) error {
			if err := r.want(3, 3, "a thread, a message and a verdict"); err != nil {
				return err
			}
			if err := r.open(); err != nil {
				return err
			}
			return r.driven(r.ops.Route(ops.RouteRequest{Asker: r.asker(), Thread: r.args[0], Message: r.args[1], Verdict: r.args[2]}))
		},
	}
}

// sayVerdict tells a person what became of their mention.
func sayVerdict(v ops.DrivingReceipt) string {
	says := ""
	if v.Says != "" {
		says = " (" + render.Terminal(v.Says) + ")"
	}
	return fmt.Sprintf("%s%s; the thread is %s", strings.ReplaceAll(v.State, "_", " "), says, drivenBy(v.Driver))
}

// sayWhoDrives heads a thread with what driving knows of it; of a thread between
// sessions, in which no seat takes part, it says nothing.
func sayWhoDrives(b *strings.Builder, v projections.ThreadView) {
	if v.Driver.Seat != nil {
		fmt.Fprintf(b, "%s\n", drivenBy(v.Driver))
	}
	for _, st := range v.Stickers {
		fmt.Fprintf(b, "sticker %s of @%s, by %s\n", render.Terminal(st.Sticker), st.Seat, st.By)
	}
	for _, h := range v.Handoffs {
		fmt.Fprintf(b, "hand-off %s from @%s to @%s, offered %s: %s\n", h.ID, h.From, h.To, h.Offered, h.State)
		for _, said := range []string{h.Reason, h.Link, h.Answer} {
			if said != "" {
				fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(render.Terminal(said), "\n", "\n    "))
			}
		}
	}
	for _, r := range v.Reviews {
		fmt.Fprintf(b, "review %s of %s by %s: %s\n", r.ID, r.Commit, seatOr(r.Reviewer), labelled(r))
	}
	if v.Card != nil {
		fmt.Fprintf(b, "card %s: %s (%s, work of %s)\n", v.Card.Message, render.Terminal(clip(v.Card.Subject, 120)), v.Card.Status, render.Terminal(v.Card.Work))
	}
	if v.Hops > 0 {
		fmt.Fprintf(b, "hops: %d\n", v.Hops)
	}
	for _, a := range v.Acks {
		fmt.Fprintf(b, "ack of %s by %s: %s\n", a.Message, a.By, strings.ReplaceAll(string(a.Ack), "_", " "))
	}
}

func seatOr(name string) string {
	if name == "" {
		return "nobody"
	}
	return "@" + name
}

func labelled(r projections.ReviewShown) string {
	if r.Label == "" {
		return "no label yet"
	}
	says := string(r.Label) + ", " + string(r.Risk)
	if r.Late {
		says += ", late"
	}
	if r.Clears {
		says += ", clears that commit"
	}
	return says
}

// owedWord says what is owed.
func owedWord(k projections.OwedKind) string {
	switch k {
	case projections.OwedHandoff:
		return "the hand-off"
	case projections.OwedReview:
		return "the review"
	}
	return "an answer to"
}
