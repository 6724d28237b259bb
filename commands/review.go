package commands

import (
	"fmt"
	"slices"
	"strings"

	"decklog/events"
	"decklog/projections"
)

// The bounds of what names a commit and its author.
const (
	CommitDigitsMin = 7
	CommitDigitsMax = 64
	AuthorBytesMax  = 256
)

// ReviewAsk asks another seat for a critique of one commit (R14).
type ReviewAsk struct {
	Call
	Thread string
	Commit string // CommitDigitsMin to CommitDigitsMax hex digits
	Author string // of the commit: a seat, @name, a session or free text; empty: not told
	To     string // the seat that is asked; empty: the next in order that may be
}

// Decide asks for the review, for the seat that drives. The seat that is asked
// gets the questions as a message; where none is left, the owners are called.
func (c ReviewAsk) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	commit, r := commitOf(c.Commit)
	if r != nil {
		return nil, r
	}
	author := strings.TrimSpace(c.Author)
	if len(author) > AuthorBytesMax || !oneLine(author) {
		return nil, refuse(BadRequest, "the author takes %d bytes, or more than one line; at most %d bytes", len(author), AuthorBytesMax).
			fix("name the commit's author by seat, @name or a short text").example("decklog review ask THREAD --commit 4f2a9c1 --author @trinity")
	}
	clean, _ := Mask([]byte(author))
	d, r := c.within(s, c.Thread, now, p)
	if r != nil {
		return nil, r
	}
	if !d.drives() {
		return nil, d.notDriver("ask for the review")
	}
	e := events.ReviewAsked{
		Review: c.ID.Review(), Thread: d.t.ID, Commit: commit, Author: string(clean), From: d.from.Seat, By: d.from.ID, Due: d.due(p.Limits.ReviewWithin),
	}
	if e.Reviewer, r = d.reviewer(c.To, author); r != nil {
		return nil, r
	}
	if r := d.askedAlready(e); r != nil {
		return nil, r
	}
	if e.Reviewer == "" {
		d.add(e, nil)
		d.page(string(e.Review), e.From, events.PageNobody)
		return d.out, nil
	}
	question := Send{
		Call: c.Call, Kind: events.KindReview, To: string(events.Named(e.Reviewer)), ReplyTo: string(d.t.Root), Intent: string(events.Request),
		Body: questions(e), Refs: []string{"commit:" + commit},
	}
	if d.out, r = question.Decide(s, now, p); r != nil {
		return nil, r
	}
	d.cause = c.ID.Event(0)
	d.add(e, nil)
	d.supersede(e)
	return d.out, nil
}

// questions is what the reviewer is asked.
func questions(e events.ReviewAsked) []byte {
	by := ""
	if e.Author != "" {
		by = ", by " + e.Author
	}
	return fmt.Appendf(nil, `Review of commit %s%s, before it is merged.

Read the commit, and say:
1. Is it a bandage, or does it go to the root?
2. Would the fault recur?
3. Does it mend the class, or this instance?

Then label it, root or bandage, with the risk of merging it, low, med or high:
    decklog review label %s root low
What is root, with low or med, clears the merge of this commit; everything else calls the owners.
`, e.Commit, by, e.Review)
}

// commitOf reads the id of a commit, or the beginning of one.
func commitOf(text string) (string, *Refusal) {
	commit := strings.ToLower(strings.TrimSpace(text))
	hex := !strings.ContainsFunc(commit, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
	if !hex || len(commit) < CommitDigitsMin || len(commit) > CommitDigitsMax {
		return "", refuse(BadRequest, "the commit %q is not %d to %d hex digits", cut(text, AuthorBytesMax), CommitDigitsMin, CommitDigitsMax).
			fix("give the commit's hash, as `git rev-parse HEAD` prints it").example("decklog review ask THREAD --commit 4f2a9c1")
	}
	return commit, nil
}

// commitSureMin is how many digits the name of a reviewed commit must have, where
// it is shorter than the one that is merged: fewer are soon found for another
// commit.
const commitSureMin = 12

// sameCommit says whether two names are of one commit: one begins with the other.
func sameCommit(a, b string) bool {
	if len(a) < CommitDigitsMin || len(b) < CommitDigitsMin {
		return false
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// reviewer is the seat that is asked: the one that is named, or the next in
// order after the driver that may review. Empty: none is left.
func (d *inThread) reviewer(named, author string) (string, *Refusal) {
	if strings.TrimSpace(named) != "" {
		seat, r := seatNamed(d.policy, named)
		if r != nil {
			return "", r
		}
		if why := d.barred(seat.Name, author); why != "" {
			return "", d.here(refuse(BadRequest, "seat %s cannot review this commit: %s", seat.Name, why).
				fix("ask another seat, or leave out --to: then the next in order is asked").
				example("decklog review ask %s --commit 4f2a9c1", d.t.ID))
		}
		return seat.Name, nil
	}
	seats := d.policy.Seats
	from := slices.IndexFunc(seats, func(seat events.Seat) bool { return seat.Name == d.from.Seat })
	for i := range seats {
		if seat := seats[(from+1+i)%len(seats)].Name; d.barred(seat, author) == "" {
			return seat, nil
		}
	}
	return "", nil
}

// barred says why a seat does not review a commit; empty: it may.
func (d *inThread) barred(seat, author string) string {
	switch {
	case seat == d.from.Seat:
		return "it asks for the review itself"
	case wrote(d.s, d.policy, seat, author):
		return "it is the commit's author"
	case !slices.Contains(d.s.Present(), seat):
		return "it has had no live session for long"
	}
	return ""
}

// wrote says whether a seat is a commit's author, as that was named: by its name or
// one of its stickers', alone or in a text, or as the session on it.
func wrote(s *projections.State, p events.Policy, seat, author string) bool {
	author = strings.TrimSpace(author)
	if named, known := SeatOfSticker(p, strings.TrimPrefix(author, "@")); known {
		return named.Name == seat
	}
	if len(author) >= PrefixMin {
		if found := s.SessionsWith(author, 2); len(found) == 1 {
			return s.SeatOf(found[0]) == seat
		}
	}
	return hasWords(strings.ToLower(author), strings.ToLower(seat))
}

// askedAlready refuses to ask the same seat for the same commit while its label
// is awaited, and to call the owners for a reviewer again.
func (d *inThread) askedAlready(e events.ReviewAsked) *Refusal {
	for _, v := range d.t.Reviews {
		if v.Reviewer != e.Reviewer || !sameCommit(v.Commit, e.Commit) || d.item(string(v.ID)) == nil {
			continue
		}
		return d.here(refuse(Duplicate, "review %s of commit %s waits for a label since %s", v.ID, v.Commit, v.Asked.Time).
			fix("wait for the label; or ask another seat with --to").example("decklog review check %s --commit %s", d.t.ID, v.Commit))
	}
	return nil
}

// supersede closes the reviews of the commit that nobody could be asked for: now
// somebody is.
func (d *inThread) supersede(e events.ReviewAsked) {
	for _, v := range d.t.Reviews {
		if v.Reviewer == "" && sameCommit(v.Commit, e.Commit) && d.item(string(v.ID)) != nil {
			d.add(events.OwedClosed{Thread: d.t.ID, Item: string(v.ID), By: d.from.ID, Why: events.OwedSuperseded}, nil)
		}
	}
}

// here puts a refusal into the thread, which then shows it.
func (d *inThread) here(r *Refusal) *Refusal {
	r.Thread = d.t.ID
	return r
}

// item is an open item of the thread; nil when it is closed.
func (d *inThread) item(id string) *projections.Owed {
	for i := range d.t.Owed {
		if d.t.Owed[i].ID == id {
			return &d.t.Owed[i]
		}
	}
	return nil
}

// page calls the owners.
func (d *inThread) page(item, debtor string, reason events.PageReason) {
	d.add(events.OwedPaged{
		Thread: d.t.ID, Item: item, Owners: Owners(d.policy), Debtor: events.Named(debtor), Reason: reason,
	}, nil)
}

// ReviewLabel is a reviewer's word on a commit.
type ReviewLabel struct {
	Call
	Review string
	Label  string
	Risk   string
}

// Decide records the label: one for a review, by the seat that was asked or that
// owes it now. What does not clear the commit calls the owners; so does what
// cannot be read, which is no label, so that the review stays open. A label that
// comes late is recorded as late, and counts.
func (c ReviewLabel) Decide(s *projections.State, now events.Time, p events.Policy) ([]events.Proposed, *Refusal) {
	d, v, r := c.review(s, c.Review, now, p)
	if r != nil {
		return nil, r
	}
	item := d.item(string(v.ID))
	owes := d.from.Seat != "" && (d.from.Seat == v.Reviewer || item != nil && item.OwedBy(d.from.Seat))
	switch {
	case !owes:
		return nil, d.here(refuse(NotYours, "review %s is of seat %s, and %s asks to label it", v.ID, or(v.Reviewer, "nobody"), d.who()).
			fix("leave the label to the seat that was asked").example("decklog thread %s", d.t.ID))
	case d.from.Seat == v.From || wrote(s, p, d.from.Seat, v.Author):
		return nil, d.here(refuse(NotYours, "seat %s asked for review %s, or wrote the commit, and nobody reviews what is their own", d.from.Seat, v.ID).
			fix("ask another seat for a review").example("decklog review ask %s --commit %s --to SEAT", d.t.ID, v.Commit))
	case v.Labelled != nil:
		return nil, d.here(refuse(AlreadyDecided, "review %s was labelled %s, %s at %s", v.ID, v.Label, v.Risk, v.Labelled.Time).
			fix("a new opinion takes a new review, which the driver asks for").example("decklog review check %s --commit %s", d.t.ID, v.Commit))
	}
	label, risk := events.Label(word(c.Label)), events.Risk(word(c.Risk))
	if swapped := (events.Label(risk)); readable(swapped, events.Risk(label)) {
		label, risk = swapped, events.Risk(label) // no word of one is a word of the other
	}
	if !readable(label, risk) {
		if item == nil || item.Paged == nil { // they are called once
			d.page(string(v.ID), d.from.Seat, events.PageUnread)
		}
		return d.out, nil
	}
	e := events.ReviewLabelled{
		Review: v.ID, Thread: d.t.ID, Label: label, Risk: risk, Late: v.TimedOut || v.Due != nil && now >= *v.Due, Clears: clears(label, risk), By: d.from.ID,
	}
	d.add(e, nil)
	if !e.Clears {
		d.page(string(v.ID), or(d.driver.Seat, v.From), events.PageVerdict)
	}
	return d.out, nil
}

func word(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// readable says whether a label and a risk are known ones.
func readable(label events.Label, risk events.Risk) bool {
	return (label == events.LabelRoot || label == events.LabelBandage) &&
		(risk == events.RiskLow || risk == events.RiskMed || risk == events.RiskHigh)
}

// clears says whether a label clears the merge of its commit with no person.
func clears(label events.Label, risk events.Risk) bool {
	return label == events.LabelRoot && (risk == events.RiskLow || risk == events.RiskMed)
}

// WholeReview is the id that a prefix of a review's stands for.
func WholeReview(s *projections.State, id string) events.ReviewID {
	return events.ReviewID(whole(s.ReviewsWith, id))
}

// review finds a review by its id, or a refusal.
func (c Call) review(s *projections.State, id string, now events.Time, p events.Policy) (*inThread, *projections.Review, *Refusal) {
	id = string(WholeReview(s, id))
	thread := s.ThreadOfReview(events.ReviewID(id))
	if thread == "" {
		if !c.Caller.Known() {
			return nil, nil, c.nobody("who is asking")
		}
		return nil, nil, refuse(NotFound, "no review has the id %q", cut(id, ToBytesMax)).
			fix("take the id from the request, from the thread, or from what is owed").example("decklog owed")
	}
	d, r := c.within(s, string(thread), now, p)
	if r != nil {
		return nil, nil, r
	}
	v := d.t.Review(events.ReviewID(id))
	if v == nil {
		return nil, nil, damagedView("the review %s", id)
	}
	return d, v, nil
}

// Clearance says whether a commit may be merged with no person, and why.
type Clearance struct {
	Clear  bool
	Why    string
	Review *projections.Review // that decides; nil: none is of this commit
}

// ReviewCheck answers a merge tool: whether a commit is cleared by a label in a
// thread. Of several labels on it the latest counts. A commit that is not named
// so far that only one can be meant is not cleared.
func ReviewCheck(t *projections.Thread, name string) (Clearance, *Refusal) {
	commit, r := commitOf(name)
	if r != nil {
		return Clearance{}, r
	}
	latest := map[string]*projections.Review{} // of each seat
	longest := ""
	for i := range t.Reviews {
		v := &t.Reviews[i]
		if !sameCommit(v.Commit, commit) {
			continue
		}
		if longest != "" && !sameCommit(longest, v.Commit) {
			return Clearance{Why: fmt.Sprintf("%s may be commit %s or %s: give more of its digits", commit, longest, v.Commit)}, nil
		}
		if len(v.Commit) > len(longest) {
			longest = v.Commit
		}
		if was := latest[v.Reviewer]; was == nil || was.Labelled == nil || v.Labelled != nil && v.Labelled.Position > was.Labelled.Position {
			latest[v.Reviewer] = v
		}
	}
	var decides *projections.Review
	for _, v := range latest {
		if decides == nil || weighsMore(v, decides) {
			decides = v
		}
	}
	if decides != nil && len(decides.Commit) < min(len(commit), commitSureMin) {
		return Clearance{Review: decides, Why: fmt.Sprintf("review %s names commit %s, too short to tell it from another: ask with the whole hash, or with %d digits of it", decides.ID, decides.Commit, commitSureMin)}, nil
	}
	return clearance(decides, commit), nil
}

// weighsMore says whether the latest review of one seat decides over that of
// another: a label over none, one that does not clear over one that does, since
// asking somebody else mends nothing, and else the later.
func weighsMore(v, than *projections.Review) bool {
	switch {
	case v.Labelled == nil && than.Labelled == nil:
		return v.Asked.Position > than.Asked.Position
	case v.Labelled == nil || than.Labelled == nil:
		return than.Labelled == nil
	case v.Clears != than.Clears:
		return !v.Clears
	}
	return v.Labelled.Position > than.Labelled.Position
}

func clearance(v *projections.Review, commit string) Clearance {
	c := Clearance{Review: v}
	switch {
	case v == nil:
		c.Why = fmt.Sprintf("no review of commit %s was asked for in this thread", commit)
	case v.Labelled == nil && v.Reviewer == "":
		c.Why = "no seat could review it, and the owners were called"
	case v.Labelled == nil:
		c.Why = fmt.Sprintf("review %s by %s has no label yet", v.ID, v.Reviewer)
	default:
		c.Clear = v.Clears
		c.Why = fmt.Sprintf("review %s by %s says %s, %s", v.ID, v.Labelled.By, v.Label, v.Risk)
	}
	return c
}
