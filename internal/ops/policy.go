package ops

import (
	"decklog/commands"
	"decklog/events"
	"decklog/internal/policyfile"
)

// PolicyInForce is the policy that commands are decided under.
type PolicyInForce struct {
	Position events.Position `json:"position"` // of its event; 0: none was adopted yet
	Time     *events.Time    `json:"time"`
	Policy   events.Policy   `json:"policy"`
}

// Policy gives the policy in force.
func (o *Ops) Policy() (p PolicyInForce, err error) {
	err = o.look(func(v *reading) (err error) {
		if adopted := v.s.Policy(); adopted != nil {
			at := adopted.Time
			p = PolicyInForce{Position: adopted.Position, Time: &at, Policy: adopted.Policy}
			return nil
		}
		p.Policy, err = v.World.PolicyFile()
		return err
	})
	return p, err
}

// AdoptPolicy puts another policy in force. Only a person does that; the policy
// of an empty ledger is adopted by its first command. One that is in force
// already changes nothing.
func (o *Ops) AdoptPolicy(a Asker, policy events.Policy) (receipt Receipt, refused *commands.Refusal, err error) {
	refused, err = o.update("policy adopt", a, func(u *unit) (*commands.Refusal, error) {
		// A policy of a file was read by the same rules; one that comes by itself is
		// held against them here.
		if _, faults := policyfile.Parse("policy", policyfile.Render(policy)); len(faults) > 0 {
			return commands.Refuse(commands.BadRequest, "the policy has %d faults, the first: %s", len(faults), faults[0]).
				Better("mend it, and look at it again: decklog policy check", "decklog policy show > decklog.toml"), nil
		}
		recorded, r, err := u.run(commands.AdoptPolicy{Call: u.call, Policy: policy}, events.TypePolicyAdopted)
		if r != nil || err != nil {
			return r, err
		}
		receipt, err = u.receipt("policy", recorded)
		return nil, err
	})
	return receipt, refused, err
}
