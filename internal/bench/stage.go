//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"decklog/events"
	"decklog/internal/clock"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// stage is a small ledger in a folder of its own, and the programs on it. Its
// policy has no rates: what is measured is a send, not a refusal.
type stage struct {
	*bench
	dir, ledger string
	env         []string
}

const (
	alice = "5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90"
	bob   = "01a0b7c2-4e5d-7f10-8a3b-6c9d0e1f2a3b"
)

// text is a body of 300 bytes.
var text = strings.Repeat("which commit fixed the lease test, and since when? ", 6)[:300]

func (b *bench) stage(name string) (*stage, error) {
	if err := b.build(); err != nil {
		return nil, err
	}
	s := &stage{bench: b, dir: filepath.Join(b.folder, name)}
	s.ledger = filepath.Join(s.dir, "ledger.db")
	s.env = []string{"HOME=" + s.dir, "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "DECKLOG_LEDGER=sqlite:" + s.ledger}
	if err := os.MkdirAll(filepath.Join(s.dir, "ignored"), 0o700); err != nil {
		return nil, err
	}
	policy := fmt.Sprintf(`[limits]
session_rate = 0
device_rate = 0
person_rate = 0
thread_rate = 0
recipient_full = 0
duplicate_window = "0s"

[sessions]
ignore = [%q]
`, filepath.Join(s.dir, "ignored"))
	if err := os.WriteFile(filepath.Join(s.dir, "decklog.toml"), []byte(policy), 0o600); err != nil {
		return nil, err
	}
	for _, session := range []string{alice, bob} {
		if _, err := s.hook(session, s.dir, "SessionStart", "*").time(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// run is a program of ours on the stage's ledger.
func (s *stage) run(says, name string, args ...string) process {
	return process{args: append([]string{s.program(name)}, args...), env: s.env, dir: s.dir, says: says}
}

// hook is a hook run of a session in a directory, as Claude Code starts it.
func (s *stage) hook(session, cwd, event, says string) process {
	p := s.run(says, "decklog", "hook", "claude-code")
	if _, err := os.Stat(s.program("decklog-hook")); err == nil {
		p = s.run(says, "decklog-hook", "claude-code")
	}
	in := map[string]any{
		"session_id": session, "transcript_path": filepath.Join(s.dir, "transcript.jsonl"), "cwd": cwd, "hook_event_name": event,
		"permission_mode": "default",
	}
	switch event {
	case "SessionStart":
		in["source"] = "startup"
	case "PostToolUse":
		in["tool_name"], in["tool_use_id"] = "Bash", "toolu_01XYZ"
		in["tool_input"] = map[string]any{"command": "go test ./...", "description": "Run the tests"}
		in["tool_response"] = map[string]any{"stdout": strings.Repeat("ok  \tdecklog/events\t0.412s\n", 40), "stderr": "", "interrupted": false}
	}
	p.stdin, _ = json.Marshal(in)
	return p
}

// reference is a reference program with the same input and surroundings as p.
func (p process) reference(b *bench, name string, args ...string) process {
	p.args, p.says = append([]string{b.program(name)}, args...), ""
	return p
}

// drain delivers all that waits for a session.
func (s *stage) drain(sessions ...string) error {
	ledger, err := sqlite.Open(s.ledger, projections.Project)
	if err != nil {
		return err
	}
	o := operations(ledger, clock.Now)
	for _, session := range sessions {
		if err := drain(o, session); err != nil {
			return err
		}
	}
	return ledger.Close()
}

func drain(o *ops.Ops, session string) error {
	for {
		offered, refused, err := o.Lease(ops.LeaseRequest{Asker: ops.Asker{As: session}, Hook: "bench"})
		if err != nil || refused != nil || offered.ID == "" {
			return settled(refused, err)
		}
		_, refused, err = o.Confirm(ops.Asker{As: session}, offered.ID)
		if err := settled(refused, err); err != nil {
			return err
		}
	}
}

// settled makes a refusal an error: nothing here should be refused.
func settled[R any](refused *R, err error) error {
	if err == nil && refused != nil {
		err = fmt.Errorf("refused: %+v", *refused)
	}
	return err
}

// operations are the operations on a ledger, in a world in which every session
// lives, and which is the same each time.
func operations(l ops.Ledger, now func() events.Time) *ops.Ops {
	numbers := rand.New(rand.NewPCG(1, uint64(now())))
	return &ops.Ops{Ledger: l, World: ops.World{
		Now: now,
		Random: func(b []byte) {
			for len(b) > 0 {
				b = b[copy(b, binary.LittleEndian.AppendUint64(nil, numbers.Uint64())):]
			}
		},
		Alive:  func(events.Process) bool { return true },
		Seen:   func(events.SessionID) (bool, events.Time, bool) { return true, now(), true },
		Device: "bench", OSUser: "bench",
		Environ: func(string) string { return "" }, Ancestors: func() []events.Process { return nil },
		PolicyFile: func() (events.Policy, error) { return policy(), nil },
	}}
}

// policy is the default one without rates.
func policy() events.Policy {
	p := events.DefaultPolicy()
	p.Limits.SessionRate, p.Limits.DeviceRate, p.Limits.PersonRate, p.Limits.ThreadRate = 0, 0, 0, 0
	p.Limits.RecipientFull, p.Limits.DuplicateWindow = 0, 0
	return p
}

var errNothing = errors.New("nothing was found where something is")
