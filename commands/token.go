package commands

import (
	"strings"

	"decklog/events"
	"decklog/projections"
)

// GiveToken asks to give out a token, or to take one back. Tokens are the
// machine's and lie beside the ledger: nothing of it is recorded but a refusal.
type GiveToken struct {
	Call
	For string // whom it shall name; empty: none is given out
}

const tokenExample = "decklog token create --for @NAME --as @NAME"

// Decide admits a person alone, and gives the participant whom the token names:
// a known person or seat, a session that joined, or a bot. An agent that gave
// out tokens could act as anybody.
func (c GiveToken) Decide(s *projections.State, now events.Time, p events.Policy) (events.Participant, *Refusal) {
	if r := c.onlyAPerson(s, now, p, "gives out tokens", tokenExample); r != nil || c.For == "" {
		return "", r
	}
	if name, bot := strings.CutPrefix(c.For, "bot:"); bot {
		if why := CheckName(name); why != "" {
			return "", refuse(BadRequest, "%q names no bot: %s", cut(c.For, ToBytesMax), why).
				fix("name the bot as bot:NAME").example("decklog token create --for bot:pager")
		}
		return events.Participant(c.For), nil
	}
	from, _ := c.author(s, now, p)
	found, r := c.resolve(s, c.For, now, p, from)
	if r != nil {
		return "", r.fix("name a person or a seat of the policy as @NAME, a session that joined by its id, or a bot as bot:NAME").
			example("decklog token create --for @NAME")
	}
	return found.ID, nil
}
