package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// positions are where views say as of when they are.
var positions = regexp.MustCompile(`"at":\d+`)

// append puts events that no decider of this version makes at the end of a
// stream, through the ledger itself.
func (m *machine) append(stream events.Stream, unknown ...events.Unknown) {
	m.Helper()
	ledger, err := sqlite.Open(m.file(), projections.Project)
	m.ok(err)
	m.ok(ledger.Update(func(tx events.Tx) error {
		head, err := tx.Head(stream)
		if err != nil {
			return err
		}
		end, err := tx.End()
		if err != nil {
			return err
		}
		b := events.Batch{Stream: stream, Expected: head, Time: events.At(scenarioStart), Policy: 1}
		for n, e := range unknown {
			id := events.FollowUp(fmt.Sprint("newer ", end), fmt.Sprint(n))
			b.Events = append(b.Events, events.Proposed{
				Stream: stream, ID: id.Event(0), Actor: "newer-session", Cause: events.Cause{Command: id}, Event: e,
			})
		}
		_, err = tx.Append(b)
		return err
	}))
	m.ok(ledger.Close())
}

// F24: what a newer decklog recorded is kept and shown as it is stored; no fold
// takes it for something else, and no command stumbles over it.
func TestF24AnEventOfANewerVersionIsKeptShownAndSkipped(t *testing.T) {
	m := aboard(t)
	m.join("alice-0001", "--seat", "smith")
	m.hook("claude-code", "SessionStart", "bob-0002")
	m.hook("codex", "SessionStart", "carol-0003")
	root := m.send("alice-0001", "bob-0002", "Before the newer ones.", "--intent", "request")
	thread := m.thread(root).Thread
	policy := m.done("policy", "show", "--json")
	views := func() string {
		return string(m.done("peers", "--json")) + string(m.done("owed", "--json")) + string(m.done("inbox", "--json", "--as", "bob-0002"))
	}
	before := positions.ReplaceAllString(views(), `"at":0`)

	newer := map[events.Stream][]events.Unknown{
		events.ThreadStream(thread): {
			{Type: "card.posted", Version: 1, Data: json.RawMessage(`{"thread":"` + string(thread) + `","subject":"é <b> & \u2028","nested":{"a":[1,2.5,null]}}`)},
			{Type: events.TypeMessageSent, Version: 2, Data: json.RawMessage(`{"message":{"id":"` + root + `"},"thread":7}`)},
			{Type: events.TypeThreadDone, Version: 2, Data: json.RawMessage(`{"thread":"` + string(thread) + `","message":"` + root + `","by":"bob-0002"}`)},
			{Type: events.TypeMessageDeleted, Version: 3, Data: json.RawMessage(`{"message":"` + root + `","thread":"` + string(thread) + `","bodies":["x"]}`)},
		},
		events.MailboxStream("bob-0002"): {
			{Type: "message.read", Version: 1, Data: json.RawMessage(`{"message":"` + root + `"}`)},
			{Type: events.TypeMailboxConfirmed, Version: 2, Data: json.RawMessage(`{"lease":"x","items":"all"}`)},
		},
		events.SessionStream("bob-0002"): {
			{Type: events.TypeSessionLeft, Version: 2, Data: json.RawMessage(`{"session":"bob-0002","reason":"left"}`)},
		},
		events.SeatStream("smith"): {
			{Type: "seat.absent", Version: 1, Data: json.RawMessage(`{"seat":"smith"}`)},
			{Type: events.TypeSeatLeft, Version: 2, Data: json.RawMessage(`{"seat":"smith","session":"alice-0001"}`)},
		},
		events.PolicyStream: {
			{Type: events.TypePolicyAdopted, Version: 2, Data: json.RawMessage(`{"policy":{"limits":{"body_bytes":1}}}`)},
		},
		"review-9f": {
			{Type: "review.asked", Version: 1, Data: json.RawMessage(`{}`)},
			{Type: "review.packed", Version: 1, Data: json.RawMessage("\x00\xff no JSON")},
		},
	}
	stored := map[events.Position]events.Unknown{}
	for _, stream := range slices.Sorted(maps.Keys(newer)) {
		first := len(m.events())
		m.append(stream, newer[stream]...)
		for n, e := range newer[stream] {
			stored[events.Position(first+n+1)] = e
		}
	}

	// Kept, and shown as they are stored, each also by its type, and those of the
	// thread in the thread.
	shown := map[events.Position]bool{}
	check := func(e ops.EventShown) {
		want := stored[e.Position]
		data := []byte(e.Data)
		if !json.Valid(want.Data) {
			data = []byte(read[string](t, e.Data))
			want.Data = bytes.ToValidUTF8(want.Data, []byte("\ufffd"))
		}
		if e.Type != want.Type || e.Version != want.Version || !bytes.Equal(data, want.Data) {
			t.Errorf("event %d is shown as %s %d %s, stored as %s %d %s", e.Position, e.Type, e.Version, e.Data, want.Type, want.Version, want.Data)
		}
		shown[e.Position] = true
	}
	for _, e := range m.events() {
		if _, is := stored[e.Position]; is {
			check(e)
		}
	}
	if len(shown) != len(stored) {
		t.Errorf("%d of %d are shown", len(shown), len(stored))
	}
	if found := m.events("--type", "card.posted"); len(found) != 1 {
		t.Errorf("%d events are of the type card.posted", len(found))
	}
	inThread := 0
	for _, e := range m.events("--thread", string(thread)) {
		if _, is := stored[e.Position]; is {
			inThread++
		}
	}
	if want := len(newer[events.ThreadStream(thread)]); inThread != want {
		t.Errorf("%d of %d are shown in the thread", inThread, want)
	}

	// Skipped by the views, as they are, as they were and rebuilt.
	if after := positions.ReplaceAllString(views(), `"at":0`); after != before {
		t.Errorf("the views were\n%s\nand are\n%s", before, after)
	}
	if now := m.done("policy", "show", "--json"); !bytes.Equal(now, policy) {
		t.Errorf("the policy in force is %s", now)
	}
	view := m.thread(root)
	if view.State != "open" || len(view.Messages) != 1 || view.Messages[0].Body != "Before the newer ones." {
		t.Errorf("the thread is %+v", view)
	}
	for position := range stored {
		at := told[projections.ThreadView](m, "thread", root, "--at", fmt.Sprint(position))
		if at.State != "open" || len(at.Messages) != 1 {
			t.Errorf("the thread at %d is %+v", position, at)
		}
		told[projections.PeersView](m, "peers", "--at", fmt.Sprint(position))
	}
	m.verified()
	if first, second := told[built](m, "rebuild"), told[built](m, "rebuild"); first != second {
		t.Errorf("rebuilt: %+v, and again: %+v", first, second)
	}
	m.verified()

	// And every command goes on, in the streams that hold them.
	if text := contextOf(t, "UserPromptSubmit", m.hook("claude-code", "UserPromptSubmit", "bob-0002")); !strings.Contains(text, root) {
		t.Errorf("the hook brings %q", text)
	}
	answer := told[receipt](m, "send", "--as", "bob-0002", "--reply-to", root, "--turn", "working", "--", "a stub").Receipt.ID
	m.done("edit", "--as", "bob-0002", answer, "--turn", "final", "--", "an answer")
	if waited := told[ops.Waited](m, "wait", "--as", "alice-0001", root, "--timeout", "10s"); len(waited.Messages) != 1 {
		t.Errorf("waited for %+v", waited)
	}
	m.done("delete", "--as", "bob-0002", m.send("bob-0002", "carol-0003", "taken back"))
	m.send("bob-0002", "@smith", "to the seat")
	lease := told[receipt](m, "lease", "--as", "alice-0001").Receipt.ID
	m.done("confirm", lease)
	m.refuses(string(commands.SeatIsTaken), "join", "--session", "carol-0003", "--seat", "smith")
	told[receipt](m, "send", "--as", "alice-0001", "--reply-to", answer, "--intent", "done", "--", "thanks")
	m.hook("codex", "Stop", "carol-0003")
	m.done("leave", "--session", "alice-0001")
	m.done("policy", "adopt", "--policy", m.policyFile("[limits]\nbody_bytes = 100\n"))
	m.refuses(string(commands.BadRequest), "send", "--as", "bob-0002", "--to", "carol-0003", "--", strings.Repeat("x", 101))
	m.verified()
	for position, want := range stored {
		if e := m.events("--from", fmt.Sprint(position))[0]; e.Type != want.Type || e.Version != want.Version {
			t.Errorf("event %d has become %s", position, e.Type)
		}
	}
}
