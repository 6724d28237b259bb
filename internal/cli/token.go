package cli

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/internal/token"
)

func tokens() *Command {
	return &Command{
		Name: "token", Group: "set-up", Usage: "create --for WHO [--scope read|write] [--label TEXT] [--expires 30d] | list | revoke ID",
		Short: "who may use the doors of decklog serve, and as whom",
		Long: `A token lets a program, a browser or another machine through the doors of a running
decklog serve. It names the participant that it acts for, and nobody acts with it as
anybody else: a person or a seat (@NAME), a session that joined (its id), or a bot
(bot:NAME). A person's token also speaks for that person's sessions. A session's token ends
with its session. A seat's token acts as the session that occupies the seat. With --scope
read it changes nothing. It is good until it is revoked, or until --expires has passed.

create prints the token this once; beside the ledger lies only its hash, in tokens.json.
revoke holds at once, for a serve that runs too. Only a person gives out tokens and takes
them back, on the machine where the ledger's folder is and outside of any harness: an agent with
a token of its own making could act as anybody. Who can read the file serve.token in the
ledger's folder needs no other on this machine: it is this machine's own, and a serve
believes it about who calls.

Tokens are of one machine, not of the ledger: where several machines serve a ledger in a
cluster, each knows only those that were made on it. So make one on each machine whose
doors are to be used; what is revoked on one says nothing to the others.

Give it to a program in the variable DECKLOG_TOKEN, to the dashboard in its form, and to
anything else as a header: Authorization: Bearer TOKEN. Treat it like a password.`,
		Examples: []string{
			`decklog token create --for @ana --label "ana's phone" --expires 30d`,
			`decklog token create --for bot:pager --json`,
			`decklog token create --for @smith --scope read`,
			`decklog token list`,
			`decklog token revoke k3v9x2ab`,
		},
		Words: []string{"create", "list", "revoke"},
		Flags: func(f *flag.FlagSet, r *run) {
			r.text("for", "", "`WHO` it acts for: @NAME, a session's id, or bot:NAME")
			r.text("scope", string(token.Write), "`SCOPE`: write, or read, which changes nothing")
			r.text("label", "", "a `TEXT` that tells people what it is for")
			r.text("expires", "", "how long it is good, as `SPAN`: 12h, 30d, 4w (default: until it is revoked)")
		},
		Run: func(r *run) error {
			create := r.again("for", "scope", "label", "expires") != ""
			if create && (len(r.args) == 0 || r.args[0] != "create") {
				return misused("--for, --scope, --label and --expires are for `token create`")
			}
			return r.sub(map[string]func() error{"create": r.createToken, "list": r.listTokens, "revoke": r.revokeToken})
		},
	}
}

// TokenReceipt is what is told of a token once, when it is made.
type TokenReceipt struct {
	token.Token
	Secret string `json:"token"`
}

func (r *run) createToken() error {
	if err := r.want(0, 0, ""); err != nil {
		return err
	}
	n := token.New{Scope: token.Scope(r.str("scope")), Label: r.str("label")}
	switch {
	case r.str("for") == "":
		return misused("--for is missing: whom the token acts for")
	case !slices.Contains(token.Scopes(), n.Scope):
		return misused("--scope %q is neither read nor write", n.Scope)
	case len(n.Label) > token.LabelBytesMax:
		return misused("--label has %d bytes, of at most %d", len(n.Label), token.LabelBytesMax)
	}
	now := r.World.Now()
	if text := r.str("expires"); text != "" {
		span, err := days(text)
		if err != nil {
			return err
		}
		end := now.Add(span)
		n.Expires = &end
	}
	kept, give, err := r.tokens()
	if err != nil {
		return err
	}
	who, refusal, err := give.GiveToken(r.asker(), r.str("for"))
	if refusal != nil || err != nil {
		return r.answer(nil, refusal, err, nil)
	}
	n.Participant = who
	made, secret, err := kept.Create(n, now)
	return r.answer(TokenReceipt{made, secret}, nil, tokenFault(err), func() string {
		return render.Terminal(fmt.Sprintf("made: token %s; it is shown this once\n%s", sayToken(made, now), secret))
	})
}

func (r *run) listTokens() error {
	if err := r.want(0, 0, ""); err != nil {
		return err
	}
	kept, _, err := r.tokens()
	if err != nil {
		return err
	}
	list, err := kept.List()
	type shown struct {
		token.Token
		State string `json:"state"`
	}
	now, view := r.World.Now(), []shown{}
	for _, t := range list {
		view = append(view, shown{t, t.State(now)})
	}
	return r.show(map[string]any{"tokens": view}, nil, tokenFault(err), func() error {
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n", plural(len(list), "token"))
		for _, t := range list {
			b.WriteString(sayToken(t, now) + "\n")
		}
		return r.write([]byte(render.Terminal(b.String())))
	})
}

func (r *run) revokeToken() error {
	if err := r.want(1, 1, "the token's id"); err != nil {
		return err
	}
	id := r.args[0]
	if within := token.IDIn(id); within != "" {
		id = within // who finds a token somewhere has all of it
	}
	kept, give, err := r.tokens()
	if err != nil {
		return err
	}
	if _, refusal, err := give.GiveToken(r.asker(), ""); refusal != nil || err != nil {
		return r.answer(nil, refusal, err, nil)
	}
	revoked, err := kept.Revoke(id, r.World.Now())
	if errors.Is(err, token.ErrUnknown) {
		err = Failed("no_such_token", "take the id from `decklog token list`; nothing was changed", fmt.Errorf("no token has the id %q", clip(id, token.TextBytesMax)))
	}
	return r.answer(revoked, nil, tokenFault(err), func() string {
		return render.Terminal("revoked: token " + sayToken(revoked, r.World.Now()))
	})
}

// tokens are those beside the ledger, and who says who may give them out.
func (r *run) tokens() (*token.Tokens, ops.Tokens, error) {
	if err := r.open(); err != nil {
		return nil, nil, err
	}
	give, can := r.ops.(ops.Tokens)
	folder := r.beside.Folder
	if Served(r.address()) && folder != "" {
		if _, err := token.OfMachine(folder); err != nil {
			folder = "" // the ledger's tokens lie elsewhere
		}
	}
	switch {
	case Served(r.address()) && folder == "":
		return nil, nil, Failed("not_supported", "run it on the machine that serves the ledger, with --ledger unix:PATH of the socket beside the ledger, or sqlite:PATH",
			errors.New("tokens lie beside the ledger, and are not given out through a door that they open"))
	case !can || folder == "":
		return nil, nil, Failed("not_supported", "use a ledger in a file: --ledger sqlite:PATH", errors.New("this ledger has no folder to keep tokens in"))
	}
	return token.Open(r.beside.Folder), give, nil
}

// tokenFault says what is wrong with the tokens' file, and what to do.
func tokenFault(err error) error {
	switch {
	case errors.Is(err, token.ErrDamaged):
		return Failed("tokens_damaged", "mend the file, or take it away: then no token is good until `decklog token create` makes new ones; nothing was changed", err)
	case errors.Is(err, token.ErrFull):
		return Failed("too_many_tokens", "revoke some of `decklog token list`: what is revoked makes room", err)
	}
	return err
}

// sayToken says in one line whose a token is and how long it is good.
func sayToken(t token.Token, now events.Time) string {
	says := fmt.Sprintf("%s  %s  %-5s  %s, made %s", t.ID, t.Participant, t.Scope, t.State(now), t.Created)
	switch {
	case t.Revoked != nil:
		says += ", revoked " + t.Revoked.String()
	case t.Expires != nil:
		says += ", until " + t.Expires.String()
	}
	if t.Label != "" {
		says += "  " + flat(t.Label)
	}
	return says
}

// The bounds of a span that a token is good for.
const (
	expiresMin = time.Minute
	expiresMax = 10 * 365 * 24 * time.Hour
)

// days reads a span as people say it of weeks and days: 30d, 4w; else as Go does.
func days(text string) (time.Duration, error) {
	span, err := time.ParseDuration(text)
	if n := len(text) - 1; n > 0 && (text[n] == 'd' || text[n] == 'w') {
		each := 24 * time.Hour
		if text[n] == 'w' {
			each *= 7
		}
		var count int
		if count, err = strconv.Atoi(text[:n]); err == nil {
			span = time.Duration(min(max(count, -1), int(expiresMax/each)+1)) * each
		}
	}
	if err != nil {
		return 0, misused("--expires %q is no span such as 12h, 30d or 4w", text)
	}
	if span < expiresMin || span > expiresMax {
		return 0, misused("--expires %q is not between one minute and ten years", text)
	}
	return span, nil
}
