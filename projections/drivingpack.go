package projections

import "decklog/events"

// What driving adds to the rows, as pack.go writes them. Most messages and
// threads have none of it, and their rows are no longer for it than a byte.

func (a *Act) pack(p *packer) {
	number(p, &a.Position)
	p.moment(&a.Time)
	often(p, &a.By)
}

func packAct(p *packer, a *Act) { a.pack(p) }

func packBecause(p *packer, b *Because) {
	number(p, &b.Position)
	text(p, &b.Type)
	p.moment(&b.Time)
	often(p, &b.By)
	text(p, &b.Says)
}

func packOwed(p *packer, o *Owed) {
	text(p, &o.ID)
	text(p, &o.Kind)
	text(p, &o.Thread)
	often(p, &o.Debtor)
	often(p, &o.Creditor)
	often(p, &o.DebtorSeat)
	often(p, &o.CreditorSeat)
	p.moment(&o.Since)
	p.maybe(&o.Due)
	number(p, &o.Nudges)
	p.maybe(&o.Nudged)
	p.maybe(&o.Paged)
	number(p, &o.Position)
	number(p, &o.Passed)
	list(p, &o.Calls, func(p *packer, c *CallRef) {
		text(p, &c.Event)
		often(p, &c.Mailbox)
	})
}

func packSticker(p *packer, s *Sticker) {
	often(p, &s.Seat)
	often(p, &s.Sticker)
	text(p, &s.Hand)
	often(p, &s.BySeat)
	p.flags(&s.Unordered)
	s.Act.pack(p)
}

func (m *Message) packDriving(p *packer) {
	more := len(m.Mentions)+len(m.Over)+len(m.Acks) > 0 || m.Channel != "" || m.Payload != "" || m.Verdict != ""
	if p.flags(&m.Group, &m.Address, &m.Unclear, &more); !more {
		return
	}
	list(p, &m.Mentions, often)
	often(p, &m.Channel)
	list(p, &m.Over, text)
	text(p, &m.Payload)
	list(p, &m.Acks, func(p *packer, a *AckOf) {
		text(p, &a.ID)
		often(p, &a.By)
		often(p, &a.Seat)
		text(p, &a.Ack)
		p.moment(&a.Time)
	})
	text(p, &m.Verdict)
}

func (t *Thread) packDriving(p *packer) {
	t.Began.pack(p)
	text(p, &t.Kind)
	number(p, &t.Policy)
	number(p, &t.Hops)
	more := t.Area != nil || t.Move != nil || t.Drove != nil ||
		len(t.Posts)+len(t.Mirrors)+len(t.Stickers)+len(t.Handoffs)+len(t.Reviews)+len(t.Cards)+len(t.Held) > 0
	if p.flags(&t.Group, &more); !more {
		return
	}
	some(p, &t.Area, func(p *packer, a *events.AreaOf) {
		often(p, &a.Seat)
		text(p, &a.Reason)
		text(p, &a.Says)
	})
	post := func(p *packer, at *Post) {
		often(p, &at.Seat)
		at.Act.pack(p)
	}
	list(p, &t.Posts, post)
	list(p, &t.Mirrors, post)
	list(p, &t.Stickers, packSticker)
	list(p, &t.Handoffs, func(p *packer, h *Handoff) {
		text(p, &h.ID)
		often(p, &h.From)
		often(p, &h.To)
		text(p, &h.Link)
		text(p, &h.State)
		text(p, &h.End)
		text(p, &h.Event)
		text(p, &h.Answer)
		h.Offered.pack(p)
		some(p, &h.Accepted, packAct)
	})
	some(p, &t.Move, func(p *packer, m *Move) {
		text(p, &m.Message)
		often(p, &m.From)
		often(p, &m.To)
		m.Judged.pack(p)
		some(p, &m.InForce, packAct)
		list(p, &m.Before, packSticker)
		text(p, &m.Command)
		list(p, &m.Passed, func(p *packer, i *Passing) {
			text(p, &i.Item)
			often(p, &i.From)
		})
		list(p, &m.Closed, packOwed)
	})
	list(p, &t.Reviews, func(p *packer, r *Review) {
		text(p, &r.ID)
		text(p, &r.Commit)
		text(p, &r.Author)
		often(p, &r.Reviewer)
		often(p, &r.From)
		p.maybe(&r.Due)
		r.Asked.pack(p)
		text(p, &r.Label)
		text(p, &r.Risk)
		p.flags(&r.Late, &r.Clears, &r.TimedOut)
		some(p, &r.Labelled, packAct)
	})
	list(p, &t.Cards, func(p *packer, c *CardOf) {
		text(p, &c.Message)
		often(p, &c.Seat)
		often(p, &c.Driver)
		text(p, &c.Work)
		text(p, &c.Status)
	})
	some(p, &t.Drove, func(p *packer, d *Drove) {
		often(p, &d.Seat)
		p.moment(&d.Since)
	})
	list(p, &t.Held, text)
}
