package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/projections"
)

// shows waits until a session is shown so. Another machine is told of it, and nobody
// says when it has heard.
func (m *machine) shows(session string, is func(projections.Peer) bool) projections.Peer {
	m.Helper()
	for {
		p := m.peer(session)
		if is(p) {
			return p
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-m.Context().Done():
			m.Fatalf("%s is shown as %+v", session, p)
		}
	}
}

// Of a process on another machine is known what the server there saw, and no number of
// a process here is taken for it. The session may go on here, and then this is its home.
func TestTwoServersTellEachOtherOfTheProcessesOnTheirMachines(t *testing.T) {
	double, err := esdbdouble.Start(esdbdouble.NewLog(), esdbdouble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(double.Stop)
	aboard := func(name string) *machine {
		m := ashore(t).with("DECKLOG_DEVICE=" + name)
		m.url = double.URL() + "&views=" + filepath.Join(m.dir, "views", "views.db")
		m.url = m.serves("--listen", "none").socket
		return m
	}
	a, b := aboard("deck-a"), aboard("deck-b")
	a.join("other-01")
	h := a.harness("claude")
	if text := h.hooks("claude-code", "SessionStart", "taker-02", nil); !strings.Contains(text, "decklog-instruction") {
		t.Fatalf("it is told %q", text)
	}
	told := func(what, device string) func(projections.Peer) bool {
		return func(p projections.Peer) bool {
			return strings.HasPrefix(p.Evidence, what) && strings.Contains(p.Evidence, "as "+device+" told")
		}
	}
	if p := b.shows("taker-02", told("its process ran ", "deck-a")); !p.Live || p.Device != "deck-a" {
		t.Errorf("while it runs it is shown elsewhere as %+v", p)
	}
	if p := a.peer("taker-02"); !strings.HasPrefix(p.Evidence, "its process runs; ") {
		t.Errorf("and at home as %+v", p)
	}
	h.kill()
	if p := b.shows("taker-02", told("its process is gone", "deck-a")); p.Live {
		t.Errorf("after its death it is shown elsewhere as %+v", p)
	}
	b.join("sender-03")
	sent := b.send("sender-03", "taker-02", "Are you there?")
	b.send("sender-03", "other-01", "And you?") // what is due is recorded by whoever runs
	ends := b.events("--type", string(events.TypeSessionLeft))
	if len(ends) != 1 || read[events.SessionLeft](t, ends[0].Data).Reason != events.EndProcessGone {
		t.Errorf("its end is recorded as %+v", ends)
	}

	// It is resumed on the other machine, and gets its mail there.
	if text := b.harness("claude").hooks("claude-code", "SessionStart", "taker-02", map[string]any{"source": "resume"}); !strings.Contains(text, sent) {
		t.Errorf("resumed, it is told %q", text)
	}
	if p := a.shows("taker-02", told("its process ran ", "deck-b")); !p.Live || p.Device != "deck-b" {
		t.Errorf("its old home shows it as %+v", p)
	}
	if p := b.peer("taker-02"); !strings.HasPrefix(p.Evidence, "its process runs; ") {
		t.Errorf("its new home shows it as %+v", p)
	}
	// What machines tell leaves no trace in what they have.
	at := b.verified()
	a.shows("taker-02", func(projections.Peer) bool { return a.verified().Position == at.Position })
	if again := a.verified(); again.Digest != at.Digest || again.Events != at.Events {
		t.Errorf("the machines differ: %+v, %+v", again, at)
	}
}
