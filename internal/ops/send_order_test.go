package ops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
)

func inform(to, body string) ops.SendRequest { return ops.SendRequest{To: to, Body: []byte(body)} }

func reply(to events.MessageID, body string) ops.SendRequest {
	return ops.SendRequest{ReplyTo: string(to), Body: []byte(body)}
}

func seats(names ...string) (list []events.Seat) {
	for _, n := range names {
		list = append(list, events.Seat{Name: n})
	}
	return list
}

// Each message here breaks two rules, one right after the other in the design's
// order. The first of the two is what its sender is told.
func TestOfTwoBrokenRulesTheEarlierOneIsTold(t *testing.T) {
	blank := func(q ops.SendRequest) ops.SendRequest { q.Body = []byte(" "); return q }
	for _, c := range []struct {
		first, second commands.Code
		policy        func(*events.Limits)
		// set makes the two faults and gives who sends what.
		set func(*desk) (from string, q ops.SendRequest)
		// alone mends the first fault, so that the second is seen to be there.
		alone func(*desk, ops.SendRequest) (from string, q ops.SendRequest)
	}{
		{
			first: commands.KeyReused, second: commands.BadRequest,
			set: func(d *desk) (string, ops.SendRequest) {
				q := inform(bob, "first")
				q.Key = "k"
				d.send(alice, q)
				return alice, blank(q)
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { q.Key = "other"; return alice, q },
		},
		{
			first: commands.BadRequest, second: commands.NoCaller,
			set: func(d *desk) (string, ops.SendRequest) {
				d.World.OSUser = "" // nobody
				return "", blank(inform(bob, ""))
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return "", inform(bob, "text") },
		},
		{
			first: commands.BadRequest, second: commands.SenderNotLive,
			set: func(d *desk) (string, ops.SendRequest) {
				d.leave(alice)
				return alice, inform(alice, "to myself")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return alice, inform(bob, "text") },
		},
		{
			first: commands.NoCaller, second: commands.UnknownRecipient,
			set: func(d *desk) (string, ops.SendRequest) {
				d.World.OSUser = ""
				return "", inform("nobody-here", "text")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return alice, q },
		},
		{
			first: commands.SenderNotLive, second: commands.UnknownRecipient,
			set: func(d *desk) (string, ops.SendRequest) {
				d.leave(alice)
				return alice, inform("nobody-here", "text")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return bob, q },
		},
		{
			first: commands.UnknownRecipient, second: commands.NotFound,
			set: func(d *desk) (string, ops.SendRequest) {
				q := reply("00000000-no-such", "text")
				q.To = "nobody-here"
				return alice, q
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { q.To = bob; return alice, q },
		},
		{
			first: commands.AmbiguousRecipient, second: commands.NotFound,
			set: func(d *desk) (string, ops.SendRequest) {
				d.join("same-prefix-1")
				d.join("same-prefix-2")
				q := reply("00000000-no-such", "text")
				q.To = "same-prefix"
				return alice, q
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { q.To = bob; return alice, q },
		},
		{
			first: commands.AmbiguousRecipient, second: commands.NotParticipant,
			set: func(d *desk) (string, ops.SendRequest) {
				d.join("same-prefix-1")
				d.join("same-prefix-2")
				q := reply(d.send(bob, inform("same-prefix-1", "not for alice")).ID, "text")
				q.To = "same-prefix"
				return alice, q
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { q.To = bob; return alice, q },
		},
		{
			first: commands.NotParticipant, second: commands.ReplyToDone,
			set: func(d *desk) (string, ops.SendRequest) {
				q := inform(bob, "all is done")
				q.Intent = "done"
				return carol, reply(d.send(alice, q).ID, "but")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return bob, q },
		},
		{
			first: commands.ReplyToDone, second: commands.Duplicate,
			set: func(d *desk) (string, ops.SendRequest) {
				asked := d.send(alice, request(bob, "question"))
				q := reply(asked.ID, "answer")
				d.send(bob, q)
				done := reply(asked.ID, "done")
				done.Intent, done.To = "done", bob
				d.send(alice, done)
				return bob, q
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) {
				other := d.send(alice, request(bob, "another question"))
				d.send(bob, reply(other.ID, "answer"))
				return bob, reply(other.ID, "answer")
			},
		},
		{
			first: commands.Duplicate, second: commands.SessionRate, policy: func(l *events.Limits) { l.SessionRate = 1 },
			set: func(d *desk) (string, ops.SendRequest) {
				d.send(alice, inform(bob, "text"))
				return alice, inform(bob, "text")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return alice, inform(bob, "other") },
		},
		{
			first: commands.SessionRate, second: commands.DeviceRate, policy: func(l *events.Limits) { l.SessionRate, l.DeviceRate = 1, 1 },
			set: func(d *desk) (string, ops.SendRequest) {
				d.send(alice, inform(bob, "text"))
				return alice, inform(bob, "other")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return carol, inform(bob, "third") },
		},
		{
			first: commands.DeviceRate, second: commands.PersonRate, policy: func(l *events.Limits) { l.DeviceRate, l.PersonRate = 1, 1 },
			set: func(d *desk) (string, ops.SendRequest) {
				d.send(alice, inform(bob, "text"))
				return carol, inform(bob, "other")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) {
				d.World.Device = "another-deck"
				d.join("on-another-deck")
				return "on-another-deck", inform(bob, "third")
			},
		},
		{
			first: commands.PersonRate, second: commands.ThreadRate, policy: func(l *events.Limits) { l.PersonRate, l.ThreadRate = 2, 2 },
			set: func(d *desk) (string, ops.SendRequest) {
				asked := d.send(alice, request(bob, "question"))
				d.send(bob, reply(asked.ID, "answer"))
				return alice, reply(asked.ID, "more")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) {
				d.World.OSUser = "ben"
				d.join("of-ben")
				q.To = "of-ben"
				d.after(50 * time.Minute)
				d.send("of-ben", inform(alice, "by another person"))
				d.policy.Limits.PersonRate = 0
				if _, r, err := d.AdoptPolicy(ops.Asker{As: "@ben"}, d.policy); r != nil || err != nil {
					d.t.Fatal(r, err)
				}
				return alice, q
			},
		},
		{
			first: commands.ThreadRate, second: commands.RecipientFull, policy: func(l *events.Limits) { l.ThreadRate, l.RecipientFull = 2, 2 },
			set: func(d *desk) (string, ops.SendRequest) {
				asked := d.send(alice, request(bob, "question"))
				d.send(alice, reply(asked.ID, "and another word"))
				return alice, reply(asked.ID, "and one more")
			},
			alone: func(d *desk, q ops.SendRequest) (string, ops.SendRequest) { return alice, inform(bob, "elsewhere") },
		},
	} {
		t.Run(fmt.Sprintf("%s before %s", c.first, c.second), func(t *testing.T) {
			d := newDesk(t)
			if c.policy != nil {
				c.policy(&d.policy.Limits)
			}
			d.ready(alice, bob, carol)
			from, q := c.set(d)
			d.refused(from, c.first, q)
			from, q = c.alone(d, q)
			d.refused(from, c.second, q)
			d.verified()
		})
	}
}

func TestThePartsOfABadRequestAreToldWithTheirValues(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	for _, c := range []struct {
		what string
		q    ops.SendRequest
		says string
	}{
		{"an unknown intent", ops.SendRequest{To: bob, Intent: "ask", Body: []byte("x")}, `"ask"`},
		{"an unknown turn", ops.SendRequest{To: bob, Turn: "thinking", Body: []byte("x")}, `"thinking"`},
		{"no recipient and no parent", ops.SendRequest{Body: []byte("x")}, "neither"},
		{"an empty body", inform(bob, ""), "blank"},
		{"blanks", inform(bob, " \t\n\r\n\u00a0\u2003\u3000"), "blank"},
		{"nothing but control characters", inform(bob, "\x00\x1b\x07\u0085"), "blank"},
		{"invalid UTF-8", inform(bob, "ab\xff"), "byte 2"},
		{"half a rune", inform(bob, "caf\xc3"), "byte 3"},
		{"a surrogate", inform(bob, "\xed\xa0\x80"), "byte 0"},
		{"4,001 bytes", inform(bob, strings.Repeat("x", 4001)), "4001 bytes; at most 4000"},
		{"a rune across the bound", inform(bob, strings.Repeat("x", 3999)+"é"), "4001 bytes; at most 4000"},
		{"60,000 characters", inform(bob, strings.Repeat("é", 60_000)), "120000 bytes"},
		{"11 refs", ops.SendRequest{To: bob, Body: []byte("x"), Refs: slices.Repeat([]string{"commit:4f2a9c1"}, 11)}, "11 refs; at most 10"},
		{"an empty ref", ops.SendRequest{To: bob, Body: []byte("x"), Refs: []string{"commit:4f2a9c1", " "}}, "ref 2 takes 0 bytes"},
		{"a ref of 513 bytes", ops.SendRequest{To: bob, Body: []byte("x"), Refs: []string{"file:" + strings.Repeat("a", 508)}}, "ref 1 takes 513 bytes"},
		{"a prefix of 5", inform(bob[:5], "x"), "at least 6"},
		{"a parent of 5", reply("12345", "x"), "at least 6"},
		{"a key of 201 bytes", ops.SendRequest{To: bob, Body: []byte("x"), Key: strings.Repeat("k", 201)}, "200 bytes"},
		{"a key of two lines", ops.SendRequest{To: bob, Body: []byte("x"), Key: "a\nb"}, "line feed"},
		{"a recipient of 257 bytes", inform(strings.Repeat("r", 257), "x"), "257 bytes"},
		{"a recipient that is no UTF-8", inform("bbbbbb\xc3", "x"), "UTF-8"},
		{"oneself by id", inform(alice, "x"), "sender"},
		{"oneself by a prefix", inform(alice[:6], "x"), "sender"},
	} {
		t.Run(c.what, func(t *testing.T) {
			d.t = t
			d.after(time.Minute)
			if r := d.refused(alice, commands.BadRequest, c.q); !strings.Contains(r.Message, c.says) {
				t.Errorf("told %q, which does not say %q", r.Message, c.says)
			}
		})
	}
	d.t = t
	if n := len(d.recorded(0, events.TypeMessageSent)); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
	if n := len(d.recorded(0, events.TypeCommandRefused)); n != 23 {
		t.Errorf("%d refusals were recorded", n)
	}
	d.verified()
}

func TestASeatIsNotSentToByItsOwnOccupant(t *testing.T) {
	d := newDesk(t)
	d.join(alice, func(q *ops.JoinRequest) { q.Seat = "smith" })
	d.join(bob, func(q *ops.JoinRequest) { q.Seat = "trinity" })
	d.refused(alice, commands.BadRequest, inform("@smith", "to myself"))
	d.refused("@smith", commands.BadRequest, inform(alice, "to myself"))
	d.send(alice, inform("@trinity", "to the other"))
	d.refused("@ana", commands.BadRequest, inform("@ana", "to myself"))
}

func TestWhatStandsAtABoundIsAdmitted(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	for what, q := range map[string]ops.SendRequest{
		"3,999 bytes":             inform(bob, strings.Repeat("x", 3999)),
		"4,000 bytes":             inform(bob, strings.Repeat("x", 4000)),
		"a rune up to the bound":  inform(bob, strings.Repeat("x", 3998)+"é"),
		"4,000 bytes when clean":  inform(bob, strings.Repeat("y", 3999)+"\x00\x00\r\n"),
		"NUL within":              inform(bob, "a\x00b"),
		"10 refs":                 {To: bob, Body: []byte("refs"), Refs: slices.Repeat([]string{"commit:4f2a9c1"}, 10)},
		"a ref of 512 bytes":      {To: bob, Body: []byte("long ref"), Refs: []string{"file:" + strings.Repeat("a", 507)}},
		"a key of 200 bytes":      {To: bob, Body: []byte("key"), Key: strings.Repeat("k", 200)},
		"a prefix of 6":           inform(bob[:6], "prefix"),
		"words in capitals":       {To: bob, Body: []byte("capitals"), Intent: " Request ", Turn: "FINAL"},
		"blanks around the names": {To: " " + bob + "\n", Body: []byte("blanks")},
	} {
		t.Run(what, func(t *testing.T) {
			d.t = t
			receipt := d.send(alice, q)
			if receipt.To.ID != bob || receipt.State != events.StateQueued {
				t.Errorf("receipt %+v", receipt)
			}
		})
	}
	d.t = t
	view, _, err := d.Inbox(ops.InboxRequest{As: bob})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range view.Messages {
		if len(m.Body) > 4000 || strings.Contains(m.Body, "\x00") {
			t.Errorf("a body of %d bytes, %.20q", len(m.Body), m.Body)
		}
	}
	d.verified()
}

func TestOnlyAnAddressIsARef(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.SessionRate = 0
	d.policy.Limits.RecipientFull = 0
	d.policy.Limits.DeviceRate = 0
	d.ready(alice, bob)
	n := 0
	with := func(ref string) ops.SendRequest {
		n++
		return ops.SendRequest{To: bob, Body: []byte(fmt.Sprint("ref ", n)), Refs: []string{ref}}
	}
	for _, ref := range []string{
		"commit:4f2a9c1", "commit:" + strings.Repeat("a", 64), "file:lease/lease.go", "file:lease/lease.go:42", "file:/w/a file with blanks.go:7", `file:C:\w\x.go`,
		"claude-code:" + alice, "codex:" + bob + "/17", "gemini:x/17:3", "file:résumé.txt",
	} {
		d.send(alice, with(ref))
	}
	for _, ref := range []string{
		"lease.go", "commit:4f2a9c", "commit:" + strings.Repeat("a", 65), "commit:xyzxyzxyz", "file:", "https://example.com/a b", ":x", "Codex:x", "codex:", "codex:x/y", "codex:x/1:y",
		"codex:x/1/2", "file:a\nfile:b", "file:<b>", `file:"q"`, "file:a\xff", "codex:a b",
	} {
		d.after(time.Minute)
		d.refused(alice, commands.BadRequest, with(ref))
	}
}

func TestTheMessageBeyondASendersRateIsRefusedUntilTheFirstIsAnHourOld(t *testing.T) {
	var crew []string
	for i := range 12 {
		crew = append(crew, fmt.Sprintf("session-%02d-of-the-crew", i))
	}
	for _, c := range []struct {
		code    commands.Code
		limit   int
		senders int // who send 30 each
		change  func(*events.Limits)
	}{
		{commands.SessionRate, 30, 1, func(*events.Limits) {}},
		{commands.DeviceRate, 120, 4, func(*events.Limits) {}},
		{commands.PersonRate, 300, 10, func(l *events.Limits) { l.DeviceRate = 0 }},
	} {
		t.Run(string(c.code), func(t *testing.T) {
			d := newDesk(t)
			d.policy.Limits.RecipientFull = 0
			c.change(&d.policy.Limits)
			d.ready(bob)
			for _, s := range crew {
				d.join(s)
			}
			n := 0
			next := func() ops.SendRequest { n++; return inform(bob, fmt.Sprint("message ", n)) }
			first := d.now
			for _, s := range crew[:c.senders] {
				for range 30 {
					d.send(s, next())
					d.after(time.Second)
				}
			}
			from := crew[0]
			if c.senders > 1 {
				from = crew[11]
			}
			r := d.refused(from, c.code, next())
			if r.Count != c.limit || r.Limit != c.limit || r.Free == nil || *r.Free != first.Add(time.Hour) {
				t.Errorf("the refusal names count %d, limit %d, free %v; the first was sent at %s", r.Count, r.Limit, r.Free, first)
			}
			if !strings.Contains(r.Message, fmt.Sprint(c.limit)) || !strings.Contains(r.Message, r.Free.String()) {
				t.Errorf("told %q", r.Message)
			}
			d.now = *r.Free - 1
			d.refused(from, c.code, next())
			d.now = *r.Free
			d.send(from, next())
			d.refused(from, c.code, next())
		})
	}
}

func TestEveryAttemptOfAPersonCountsWithThatPersonsSessions(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.PersonRate, d.policy.Limits.SessionRate = 3, 2
	d.ready(alice, bob, carol)
	d.send(alice, inform(bob, "1"))
	d.send(carol, inform(bob, "2"))
	d.send("@ana", inform(bob, "3"))
	d.refused("@ana", commands.PersonRate, inform(bob, "4"))
	d.refused(alice, commands.PersonRate, inform(bob, "5"))
	d.World.OSUser = "ben"
	d.join("of-ben")
	d.send("of-ben", inform(bob, "of another person"))
}

func TestAClockThatJumpsLocksNobodyOutAndNeverCountsBelowZero(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.SessionRate = 2
	d.ready(alice, bob)
	d.send(alice, inform(bob, "1"))
	d.send(alice, inform(bob, "2"))
	d.refused(alice, commands.SessionRate, inform(bob, "3"))
	d.after(-time.Hour) // what was sent lies ahead now
	d.send(alice, inform(bob, "4"))
	d.send(alice, inform(bob, "5"))
	r := d.refused(alice, commands.SessionRate, inform(bob, "6"))
	if left := r.Free.Sub(d.now); left <= 0 || left > time.Hour {
		t.Errorf("the next is free in %s", left)
	}
	d.after(24 * time.Hour)
	d.join(alice) // so long unseen, without a process
	d.send(alice, inform(bob, "7"))
	d.verified()
}

func TestTheNinthMessageOfAgentsInAThreadWithinAnHourIsRefused(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob, carol)
	first := d.now
	root := d.send(alice, request(bob, "shall we?"))
	for i := range 7 {
		d.after(time.Minute)
		from, to := alice, bob
		if i%2 == 0 {
			from, to = bob, alice
		}
		q := reply(root.ID, fmt.Sprint("thank you ", i))
		q.To = to
		d.send(from, q)
	}
	r := d.refused(bob, commands.ThreadRate, reply(root.ID, "thank you again"))
	if r.Count != 8 || r.Limit != 8 || r.Free == nil || *r.Free != first.Add(time.Hour) || r.Thread != root.Thread {
		t.Errorf("the refusal is %+v", r)
	}
	if !strings.Contains(r.Fix, "person") {
		t.Errorf("the fix does not send them to the person: %q", r.Fix)
	}
	// Another thread of the same two is not bound.
	d.send(bob, inform(alice, "elsewhere"))
	d.now = *r.Free - 1
	d.refused(bob, commands.ThreadRate, reply(root.ID, "thank you again"))
	d.now = *r.Free
	d.send(bob, reply(root.ID, "thank you again"))
}

func TestDoneIsNeitherCountedNorRefusedByAThreadsRate(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.ThreadRate = 2
	d.ready(alice, bob)
	root := d.send(alice, request(bob, "question"))
	done := reply(root.ID, "I say done")
	done.Intent = "done" // bob's closes only what it answers
	d.send(bob, done)
	d.send(bob, reply(root.ID, "and a word more"))
	d.refused(bob, commands.ThreadRate, reply(root.ID, "the third"))
	done = reply(root.ID, "closed")
	done.Intent, done.To = "done", bob
	if receipt := d.send(alice, done); !receipt.Closes {
		t.Errorf("the asker's done did not close: %+v", receipt)
	}
}

func TestAPersonsWordLiftsTheThreadsRateForAnHour(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	root := d.send(alice, request(bob, "question"))
	d.after(time.Minute)
	spoke := d.now
	word := reply(root.ID, "go on, both of you")
	word.To = bob
	d.send("@ana", word)
	for i := range 12 {
		d.after(time.Minute)
		d.send(bob, reply(root.ID, fmt.Sprint("step ", i)))
	}
	d.now = spoke.Add(time.Hour) - 1
	d.send(bob, reply(root.ID, "still within the hour"))
	d.now = spoke.Add(time.Hour)
	r := d.refused(bob, commands.ThreadRate, reply(root.ID, "the hour is over"))
	if r.Count != 8 || r.Free == nil || *r.Free <= d.now {
		t.Errorf("the refusal is %+v", r)
	}
	// The person is never refused by it.
	word.Body = []byte("go on")
	d.send("@ana", word)
	d.send(bob, reply(root.ID, "and so on"))
}

func TestAnEditIsNotCountedByAThreadsRate(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.ThreadRate = 2
	d.ready(alice, bob)
	root := d.send(alice, request(bob, "question"))
	for i := range 5 {
		if _, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(root.ID), Body: []byte(fmt.Sprint("question ", i))}); r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
	d.send(bob, reply(root.ID, "answer"))
	d.refused(bob, commands.ThreadRate, reply(root.ID, "more"))
	if _, r, err := d.Edit(ops.EditRequest{Asker: ops.Asker{As: alice}, Message: string(root.ID), Body: []byte("question again")}); r != nil || err != nil {
		t.Fatal(r, err)
	}
}

func TestTheFiftyFirstMessageWaitsForNobodyUntilSomeAreTaken(t *testing.T) {
	for _, to := range []string{bob, "@smith", "@ana"} {
		t.Run(to, func(t *testing.T) {
			d := newDesk(t)
			d.policy.Limits.SessionRate, d.policy.Limits.DeviceRate = 0, 0
			d.policy.Seats, d.policy.Persons = seats("smith"), []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "ben", OSUser: "ben"}}
			d.World.OSUser = "ben"
			d.ready(alice, carol)
			d.World.OSUser = "ana"
			d.join(bob)
			d.take(bob)
			for i := range 50 {
				d.send([]string{alice, carol}[i%2], inform(to, fmt.Sprint("message ", i)))
			}
			r := d.refused(alice, commands.RecipientFull, inform(to, "the 51st"))
			if r.Count != 50 || r.Limit != 50 || !strings.Contains(r.Message, "50 messages wait for "+to) {
				t.Errorf("the refusal is %+v", r)
			}
			d.refused(carol, commands.RecipientFull, inform(to, "of another"))
			d.send(alice, inform(carol, "to another"))
			if to == "@smith" {
				d.join(bob, func(q *ops.JoinRequest) { q.Seat = "smith" })
			}
			if o := d.take(bob); len(o.Messages) != 5 {
				t.Fatalf("bob was offered %d", len(o.Messages))
			}
			for i := range 5 {
				d.send(alice, inform(to, fmt.Sprint("again ", i)))
			}
			d.refused(alice, commands.RecipientFull, inform(to, "once too many"))
			d.verified()
		})
	}
}

func TestAnUnknownRecipientIsToldWithNearNames(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("smith", "trinity")
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}, {Name: "benedict", OSUser: "ben"}}
	d.ready(alice, bob)
	d.join(carol, func(q *ops.JoinRequest) {
		q.Seat = "trinity"
		q.Title = "the lease test"
		q.Branch = "lease-fix"
		q.Cwd = "/w/lease"
	})
	for to, near := range map[string][]string{
		"@smyth": {"@smith"}, "@Trinity": {"@trinity"}, "@bene": {"@benedict"}, "@anna": {"@ana"}, "@zzzzzzz": nil,
		"aaaaaaaa-1111": {alice}, "aaaaaa0": {alice}, "zzzzzz": nil,
		// A title, a directory or a branch is never an address.
		"the lease test": nil, "lease-fix": nil, "/w/lease": nil, "main-branch": nil,
	} {
		d.after(time.Second)
		r := d.refused(alice, commands.UnknownRecipient, inform(to, "hello"))
		var got []string
		for _, c := range r.Candidates {
			got = append(got, c.Session)
		}
		if !slices.Equal(got, near) {
			t.Errorf("%s: near ones are %v, want %v", to, got, near)
		}
	}
}

func TestAnAmbiguousPrefixIsToldWithTenCandidatesAtMostInOrder(t *testing.T) {
	for _, n := range []int{2, 10, 11, 14} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d := newDesk(t)
			d.ready(alice)
			var all []string
			for i := range n {
				all = append(all, fmt.Sprintf("prefix-%02d", n-i))
				d.join(all[i])
			}
			slices.Sort(all)
			d.leave(all[0])
			r := d.refused(alice, commands.AmbiguousRecipient, inform("prefix", "hello"))
			var got []string
			for _, c := range r.Candidates {
				got = append(got, c.Session)
				if c.Harness != "claude-code" || c.Directory == "" || c.Branch != "main" || c.Live != (c.Session != all[0]) {
					t.Errorf("candidate %+v", c)
				}
			}
			if !slices.Equal(got, all[:min(n, 10)]) {
				t.Errorf("the candidates are %v", got)
			}
			// A full id is no prefix, and one character more settles it.
			d.send(alice, inform(all[1], "hello"))
		})
	}
}

func TestAFullIDThatBeginsAnotherIsNotAmbiguous(t *testing.T) {
	d := newDesk(t)
	d.ready(alice)
	d.join("session-1")
	d.join("session-12")
	if receipt := d.send(alice, inform("session-1", "hello")); receipt.To.ID != "session-1" {
		t.Errorf("it went to %s", receipt.To.ID)
	}
	d.join("s1") // shorter than any prefix, and whole
	if receipt := d.send(alice, inform("s1", "hello")); receipt.To.ID != "s1" {
		t.Errorf("it went to %s", receipt.To.ID)
	}
}

func TestANameThatIsASeatAndAPersonIsAmbiguous(t *testing.T) {
	d := newDesk(t)
	d.policy.Seats = seats("ana")
	d.policy.Persons = []events.Person{{Name: "ana", OSUser: "ana"}}
	d.ready(carol, alice)
	d.join(bob, func(q *ops.JoinRequest) { q.Seat = "ana" })
	r := d.refused(alice, commands.AmbiguousRecipient, inform("@ana", "hello"))
	var got []string
	for _, c := range r.Candidates {
		got = append(got, c.Session)
	}
	if !slices.Equal(got, []string{alice, bob, carol}) {
		t.Errorf("the candidates are %v", got)
	}
}

func TestAnExampleQuotesNothingThatAShellWouldRun(t *testing.T) {
	d := newDesk(t)
	d.ready(alice)
	for _, id := range []string{"evil-$(rm)-1", "evil-$(rm)-2"} {
		d.join(id)
	}
	d.refused(alice, commands.AmbiguousRecipient, inform("evil-$", "hello")) // told demands it
	d.leave("evil-$(rm)-1")
	d.refused("evil-$(rm)-1", commands.SenderNotLive, inform(alice, "hello"))
	d.refused("unknown-$(rm)", commands.SenderNotLive, inform(alice, "hello"))
	d.refused(alice, commands.BadRequest, inform("`rm`", strings.Repeat("x", 4001)))
}
