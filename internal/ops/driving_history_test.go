package ops_test

import (
	"fmt"
	"strconv"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/rows"
	"decklog/projections"
)

// What a crew does to its threads besides talking in them.

// driving is what may be chosen of it.
func (h *history) driving() []act {
	return []act{
		{3, h.begins}, {1, h.alerts}, {2, h.places}, {2, h.removes}, {4, h.offersOne}, {9, h.decides}, {1, h.closesOne}, {1, h.routes}, {3, h.movesIt}, {2, h.acks},
		{1, h.asksReview}, {1, h.labels}, {1, h.cards}, {1, h.closesOwed},
	}
}

// begins is a person who begins a thread with whoever will drive it.
func (h *history) begins() bool { return h.send(one(h, people...), ops.SendRequest{}) }

func (h *history) alerts() bool {
	q := ops.AlertRequest{Channel: "#alerts", Body: []byte(fmt.Sprint("text ", h.below(12), " failed"))}
	q.As = one(h, "bot:pager", "bot:pager", "@ben")
	if h.below(2) == 0 {
		q.Payload = []byte(`{"text":"text 3"}`)
	}
	receipt, r, err := h.Alert(q)
	h.did("%s alerts: %s", q.As, receipt.ID)
	if h.told("alert", r, err) {
		return true
	}
	if h.by[receipt.ID] == "" {
		h.sent = append(h.sent, receipt)
		h.by[receipt.ID] = q.As
	}
	return false
}

// sitter is mostly the session on a seat, else whoever speaks.
func (h *history) sitter(seat string) (who string) {
	who = h.speaker()
	h.see(func(s *projections.State) {
		if row := s.Seat(seat); row != nil && row.Occupant != "" && h.below(8) > 0 {
			who = string(row.Occupant)
		}
	})
	return who
}

// drivenBy is the seat that drives a thread.
func (h *history) drivenBy(id events.ThreadID) (seat string) {
	h.see(func(s *projections.State) {
		if t := s.Thread(id); t != nil {
			seat = s.Driver(t).Seat
		}
	})
	return seat
}

func (h *history) places() bool {
	m, any := h.message()
	if !any {
		return false
	}
	q := ops.StickerRequest{Thread: string(m.Thread), Seat: one(h, offices...)}
	if q.As = one(h, people...); h.below(2) == 0 {
		q.Seat = h.drivenBy(m.Thread)
		q.As = h.sitter(q.Seat)
	}
	_, r, err := h.PlaceSticker(q)
	h.did("%s places the sticker of %s on %.8s", q.As, q.Seat, q.Thread)
	return h.told("sticker place", r, err)
}

// removes takes off mostly what lies there.
func (h *history) removes() bool {
	m, any := h.message()
	if !any {
		return false
	}
	q := ops.StickerRequest{Asker: ops.Asker{As: h.speaker()}, Thread: string(m.Thread), Seat: one(h, offices...)}
	h.see(func(s *projections.State) {
		t := s.Thread(m.Thread)
		if len(t.Stickers) == 0 || h.below(4) == 0 {
			return
		}
		st := one(h, t.Stickers...)
		q.Seat, q.As = st.Seat, string(st.By)
		if st.Hand != events.HandPerson {
			q.As = one(h, people...)
		}
	})
	_, r, err := h.RemoveSticker(q)
	h.did("%s removes the sticker of %s from %.8s", q.As, q.Seat, q.Thread)
	return h.told("sticker remove", r, err)
}

func (h *history) offersOne() bool {
	m, any := h.message()
	if !any {
		return false
	}
	to := one(h, offices...)
	h.see(func(s *projections.State) { // mostly one that has a session
		for range 3 {
			if row := s.Seat(to); row != nil && row.Occupant != "" && s.Driver(s.Thread(m.Thread)).Seat != to {
				break
			}
			to = one(h, offices...)
		}
	})
	q := ops.OfferRequest{Asker: ops.Asker{As: h.sitter(h.drivenBy(m.Thread))}, Thread: string(m.Thread), To: to, Reason: []byte("it is of your lane")}
	receipt, r, err := h.OfferHandoff(q)
	h.did("%s offers %.8s to %s: %s", q.As, q.Thread, q.To, receipt.ID)
	if h.told("handoff offer", r, err) {
		return true
	}
	h.offers = append(h.offers, receipt.ID)
	return false
}

// handoff is mostly a late one, with the seat that it was offered to.
func (h *history) handoff() (id, to string) {
	if len(h.offers) == 0 {
		return "", ""
	}
	id = one(h, h.offers[max(0, len(h.offers)-2):]...)
	h.see(func(s *projections.State) {
		if t := s.Thread(s.ThreadOfHandoff(events.HandoffID(id))); t != nil {
			to = t.Handoff(events.HandoffID(id)).To
		}
	})
	return id, to
}

func (h *history) decides() bool {
	id, to := h.handoff()
	if id == "" {
		return false
	}
	q := ops.HandoffRequest{Asker: ops.Asker{As: h.sitter(to)}, Handoff: id}
	if h.below(4) == 0 {
		_, r, err := h.DeclineHandoff(q)
		h.did("%s declines %.8s", q.As, id)
		return h.told("handoff decline", r, err)
	}
	_, r, err := h.AcceptHandoff(q)
	h.did("%s accepts %.8s", q.As, id)
	return h.told("handoff accept", r, err)
}

func (h *history) closesOne() bool {
	id, to := h.handoff()
	if id == "" {
		return false
	}
	q := ops.HandoffRequest{Asker: ops.Asker{As: one(h, h.sitter(to), h.speaker())}, Handoff: id}
	_, r, err := h.CloseHandoff(q)
	h.did("%s closes %.8s", q.As, id)
	return h.told("handoff close", r, err)
}

// movesIt is a person who hands a thread to another seat, and may think better
// of it before that seat has said a word.
func (h *history) movesIt() bool {
	m, any := h.message()
	if !any {
		return false
	}
	driver, who := h.drivenBy(m.Thread), one(h, people...)
	says := func(seat, what string) bool {
		known := len(h.sent)
		q := ops.SendRequest{ReplyTo: string(m.ID), Body: fmt.Appendf(nil, "@%s %s %d", seat, what, len(h.log)), Intent: one(h, "request", "inform")}
		return !h.carry(who, q) && len(h.sent) > known
	}
	if !says(one(h, offices...), "please take this") {
		return true
	}
	q := ops.RouteRequest{Thread: string(m.Thread), Message: string(h.sent[len(h.sent)-1].ID), Verdict: one(h, "route", "route", "route", "stay")}
	q.As = one(h, h.sitter(driver), who)
	receipt, r, err := h.Route(q)
	h.did("%s judges %.8s in %.8s: %s, %s", q.As, q.Message, q.Thread, q.Verdict, receipt.State)
	if h.told("route", r, err) {
		return true
	}
	switch h.below(3) {
	case 0:
		return driver != "" && !says(driver, "keep it")
	case 1:
		return h.send(h.sitter(one(h, offices...)), ops.SendRequest{ReplyTo: string(m.ID)})
	}
	return false
}

// routes says something of a person's last mention, mostly in its thread.
func (h *history) routes() bool {
	m, any := h.message()
	if !any {
		return false
	}
	for _, late := range h.sent[max(0, len(h.sent)-8):] {
		if by := h.by[late.ID]; (by == "@ana" || by == "@ben") && h.below(4) > 0 {
			m = late
		}
	}
	q := ops.RouteRequest{Thread: string(m.Thread), Message: string(m.ID), Verdict: one(h, "route", "route", "route", "stay", "unavailable")}
	q.As = one(h, h.sitter(h.drivenBy(m.Thread)), one(h, people...))
	receipt, r, err := h.Route(q)
	h.did("%s judges %.8s in %.8s: %s, %s", q.As, q.Message, q.Thread, q.Verdict, receipt.State)
	return h.told("route", r, err)
}

func (h *history) acks() bool {
	m, any := h.message()
	if !any {
		return false
	}
	q := ops.AckRequest{Asker: ops.Asker{As: h.sitter(one(h, offices...))}, Message: string(m.ID), Ack: one(h, "act", "no_input")}
	_, r, err := h.Ack(q)
	h.did("%s acks %.8s: %s", q.As, q.Message, q.Ack)
	return h.told("ack", r, err)
}

func (h *history) asksReview() bool {
	m, any := h.message()
	if !any {
		return false
	}
	q := ops.ReviewRequest{Asker: ops.Asker{As: h.sitter(h.drivenBy(m.Thread))}, Thread: string(m.Thread), Commit: one(h, "4f2a9c1", "5e3b8d2"), Author: one(h, "", "smith", "oracle")}
	receipt, r, err := h.AskReview(q)
	h.did("%s asks for a review of %s in %.8s: %s by %q", q.As, q.Commit, q.Thread, receipt.ID, receipt.Reviewer)
	if h.told("review ask", r, err) {
		return true
	}
	h.asked = append(h.asked, receipt.ID)
	return false
}

func (h *history) labels() bool {
	if len(h.asked) == 0 {
		return false
	}
	id := one(h, h.asked...)
	reviewer := ""
	h.see(func(s *projections.State) {
		if v := s.Thread(s.ThreadOfReview(events.ReviewID(id))).Review(events.ReviewID(id)); v != nil {
			reviewer = v.Reviewer
		}
	})
	q := ops.LabelRequest{Asker: ops.Asker{As: h.sitter(reviewer)}, Review: id, Label: one(h, "root", "root", "bandage"), Risk: one(h, "low", "med", "high")}
	_, r, err := h.LabelReview(q)
	h.did("%s labels %.8s %s %s", q.As, id, q.Label, q.Risk)
	return h.told("review label", r, err)
}

func (h *history) cards() bool {
	m, any := h.message()
	if !any {
		return false
	}
	q := ops.CardRequest{
		Asker: ops.Asker{As: h.sitter(h.drivenBy(m.Thread))}, Thread: string(m.Thread), Subject: []byte("the lease"), Work: "smith", Status: one(h, "investigating", "driving", "done"),
	}
	receipt, r, err := h.Card(q)
	h.did("%s shows a card in %.8s: %s", q.As, q.Thread, q.Status)
	if h.told("card", r, err) {
		return true
	}
	if id := events.MessageID(receipt.ID); h.by[id] == "" {
		h.sent = append(h.sent, commands.SendReceipt{ID: id, Thread: receipt.Thread})
		h.by[id] = q.As
	}
	return false
}

func (h *history) closesOwed() bool {
	var items []projections.Owed
	h.see(func(s *projections.State) { items = s.OwedItems(nil, nil, 0) })
	if len(items) == 0 {
		return false
	}
	q := ops.CloseOwedRequest{Asker: ops.Asker{As: one(h, people...)}, Item: one(h, items...).ID, Reason: []byte("settled by word of mouth")}
	_, r, err := h.CloseOwed(q)
	h.did("%s closes what is owed: %.8s", q.As, q.Item)
	return h.told("owed close", r, err)
}

// seen is what was shown of a thread at a moment, when that was the present.
type seen struct {
	at     events.Position
	now    events.Time
	thread events.ThreadID
	as     string // a session that asked whether it may answer
	exact  bool   // the last event was of that moment: what is pending hangs on that
	shown  [4]string
}

// shows notes now and then how a thread looks at present.
func (h *history) shows() {
	h.t.Helper()
	m, any := h.message()
	if !any || h.below(5) > 0 {
		return
	}
	v := seen{at: h.end(), now: h.now, thread: m.Thread, as: one(h, crew...)}
	v.exact = h.recorded(v.at - 1)[0].Time == h.now
	v.shown = h.shown(v, "")
	h.see(func(s *projections.State) { v.shown[3] = asJSON(gate(s, v.thread, v.as, v.now, h.policy)) })
	h.views = append(h.views, v)
}

// shown is the thread, its driver and what is owed, as of a position or, without
// one, of the present.
func (h *history) shown(v seen, at string) (shown [4]string) {
	h.t.Helper()
	thread, r1, err1 := h.Thread(ops.ThreadRequest{ID: string(v.thread), At: at})
	driver, r2, err2 := h.Driver(ops.DriverRequest{ID: string(v.thread), At: at})
	owed, r3, err3 := h.Owed(ops.OwedRequest{At: at})
	for _, r := range []*commands.Refusal{r1, r2, r3} {
		if r != nil {
			h.fail("a look at thread %s at %q is refused: %+v", v.thread, at, r)
		}
	}
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			h.fail("a look at thread %s at %q: %v", v.thread, at, err)
		}
	}
	if !v.exact {
		thread.Pending = nil
	}
	thread.Time = nil // this and the ages are the looker's
	for i := range owed.Items {
		owed.Items[i].Age = 0
	}
	for i := range thread.Owed {
		thread.Owed[i].Age = 0
	}
	for i := range thread.Messages { // whose text may have been taken back since
		m := &thread.Messages[i]
		m.Body, m.Preview, m.Payload, m.Redacted = "", "", "", false
	}
	if thread.Card != nil {
		thread.Card.Subject = ""
	}
	return [4]string{asJSON(thread), asJSON(driver), asJSON(owed)}
}

// showsTheSame: a replay to a position shows what was shown there when it was
// the present, and the turn gate says the same.
func (h *history) showsTheSame(recorded []events.Recorded) {
	h.t.Helper()
	for range min(3, len(h.views)) {
		v := one(h, h.views...)
		then := h.shown(v, strconv.FormatInt(int64(v.at), 10))
		upTo := rows.New()
		if err := projections.Project(upTo, recorded[:v.at]); err != nil {
			h.fail("fold up to %d: %v", v.at, err)
		}
		then[3] = asJSON(gate(projections.On(upTo), v.thread, v.as, v.now, h.policy))
		for i, what := range []string{"the thread", "its driver", "what is owed", "the turn gate"} {
			if then[i] != v.shown[i] {
				h.fail("%s of %s at %d was shown as\n%s\nand is by a replay\n%s", what, v.thread, v.at, v.shown[i], then[i])
			}
		}
	}
}
