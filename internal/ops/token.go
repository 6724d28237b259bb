package ops

import (
	"decklog/commands"
	"decklog/events"
)

// Tokens is what those operations can besides behind which tokens may lie in this
// machine's files: say who may give them out.
type Tokens interface {
	GiveToken(a Asker, to string) (events.Participant, *commands.Refusal, error)
}

var _ Tokens = (*Ops)(nil)

// GiveToken says whether who asks may give out a token, or take one back, and
// which participant it shall name; with nobody to name, only the former. It
// gives none out: tokens do not lie in the ledger.
func (o *Ops) GiveToken(a Asker, to string) (named events.Participant, refused *commands.Refusal, err error) {
	name := "token create"
	if to == "" {
		name = "token revoke"
	}
	refused, err = o.update(name, a, func(u *unit) (r *commands.Refusal, _ error) {
		named, r = commands.GiveToken{Call: u.call, For: to}.Decide(u.s, u.now, u.policy.Policy)
		return r, nil
	})
	return named, refused, err
}
