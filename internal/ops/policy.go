package ops

import (
	"decklog/commands"
	"decklog/events"
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
		recorded, r, err := u.run(commands.AdoptPolicy{Call: u.call, Policy: policy}, events.TypePolicyAdopted)
		if r != nil || err != nil {
			return r, err
		}
		receipt, err = u.receipt("policy", recorded)
		return nil, err
	})
	return receipt, refused, err
}
