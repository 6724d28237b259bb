package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bellTime is when a session's bell is due, after the scenario's start.
func (m *machine) bellTime(session string) string {
	m.Helper()
	info, err := os.Stat(filepath.Join(filepath.Dir(m.file()), "bells", session))
	if os.IsNotExist(err) {
		return "none"
	}
	m.ok(err)
	switch at := info.ModTime(); {
	case at.Unix() == 0:
		return "rings"
	case at.Year() == 2100:
		return "silent"
	default:
		return at.Sub(scenarioStart).String()
	}
}

func (m *machine) bell(session, want string) {
	m.Helper()
	if got := m.bellTime(session); got != want {
		m.Errorf("the bell of %s: %s, want %s", session, got, want)
	}
}

func TestABellIsSilentWhileNothingWaitsAndRingsForWhatDoes(t *testing.T) {
	m := aboard(t)
	m.first = true
	m.hook("claude-code", "SessionStart", "taker-0001")
	m.bell("taker-0001", "none") // and so it rings: it was given the instruction
	m.hook("claude-code", "PostToolUse", "taker-0001")
	m.bell("taker-0001", "silent")

	m.join("sender-0002")
	id := m.send("sender-0002", "taker-0001", "Are you there?", "--intent", "request")
	m.bell("taker-0001", "rings")
	text := contextOf(t, "PostToolUse", m.hook("claude-code", "PostToolUse", "taker-0001"))
	if !strings.Contains(text, id) {
		t.Fatalf("the bell rang, and the hook brings %q", text)
	}
	m.bell("taker-0001", "rings")
	m.hook("claude-code", "PostToolUse", "taker-0001")
	m.bell("taker-0001", "1m0s") // it owes an answer, and looks once a minute

	// A stub is heard of when it is final, and at the latest when its time is over.
	m.done("send", "--as", "taker-0001", "--reply-to", id, "--", "Yes.")
	m.hook("claude-code", "PostToolUse", "taker-0001")
	m.bell("taker-0001", "1m0s") // its answer is not taken yet
	lease := m.done("lease", "--as", "sender-0002", "--json")
	m.done("confirm", read[receipt](t, lease).Receipt.ID)
	m.at(scenarioStart.Add(time.Minute))
	m.hook("claude-code", "PostToolUse", "taker-0001")
	m.bell("taker-0001", "2m0s") // what it was brought is not in its transcript yet
	m.at(scenarioStart.Add(2 * time.Minute))
	m.takesDown("taker-0001", "PostToolUse", text)
	m.bell("taker-0001", "silent")
	stub := m.send("sender-0002", "taker-0001", "I am on it", "--turn", "working")
	m.bell("taker-0001", "rings")
	m.hook("claude-code", "PostToolUse", "taker-0001")
	m.bell("taker-0001", "3m0s")
	m.at(scenarioStart.Add(5*time.Minute - time.Second))
	m.hook("claude-code", "PostToolUse", "taker-0001")
	m.bell("taker-0001", "5m0s") // 180 s after it was sent
	m.at(scenarioStart.Add(5 * time.Minute))
	if text := contextOf(t, "PostToolUse", m.hook("claude-code", "PostToolUse", "taker-0001")); !strings.Contains(text, stub) {
		t.Errorf("at 180 s the stub is not brought: %q", text)
	}

	// A session that ended has no bell, and so one that comes back rings.
	m.hook("claude-code", "SessionEnd", "taker-0001")
	m.bell("taker-0001", "none")
	m.verified()
}
