package render

import (
	"math"
	"strings"
)

// Item is what a lease holds, as it is shown: a Message, a Notice or a Call.
type Item interface {
	// show writes the item in at most budget encoded bytes, as far as it can.
	show(s style, budget int) string
}

const (
	separator = "\n\n"
	unbounded = math.MaxInt
)

// Fit is how many of the items, from the first, a hook run can show whole after
// the instruction (empty when none is owed) in budget encoded bytes. It is at
// least one, when there is one: what alone is too large is clipped, or else it
// would block its mailbox for ever.
func (m Markup) Fit(budget int, instruction string, items []Item) int {
	used := EncodedLen(instruction)
	for i, item := range items {
		if used > 0 {
			used += EncodedLen(separator)
		}
		used += EncodedLen(item.show(m.style(), unbounded))
		if i > 0 && used > budget {
			return i
		}
	}
	return len(items)
}

// Text is what a hook run prints: the instruction, then the items in their
// order, which is the mailbox's, oldest first.
//
// All the items are shown, because they are leased and will be confirmed: what
// was left out here would be lost. It is for the caller to lease no more than
// Fit. A single item is clipped to the budget; its frame, refs and reply call
// are not, even if they exceed it.
func (m Markup) Text(budget int, instruction string, items []Item) string {
	var blocks []string
	if instruction != "" {
		blocks = append(blocks, instruction)
		budget -= EncodedLen(instruction + separator)
	}
	if len(items) > 1 {
		budget = unbounded
	}
	for _, item := range items {
		blocks = append(blocks, item.show(m.style(), budget))
	}
	return strings.Join(blocks, separator)
}
