package mcp

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"decklog/events"
	"decklog/internal/callers"
	"decklog/internal/ops"
	"decklog/internal/stamp"
)

// claudeToolUse is Claude Code's name for the id under which its hooks saw the call.
const claudeToolUse = "claudecode/toolUseId"

// caller gathers what came with a call of who makes it. It judges none of it.
type caller struct {
	callers callers.Callers
	now     func() time.Time
	spent   spent
}

// claims are what came with one call. given is the stamp that stood in its
// arguments, if one did.
func (c *caller) claims(tool string, meta mcp.Meta, arguments json.RawMessage, given string, there bool) ops.Claims {
	claims := ops.Claims{Agents: true}
	codex := turnMetadata(meta["x-codex-turn-metadata"])
	use, _ := meta[claudeToolUse].(string)
	if codex != nil {
		use, _ = meta["callId"].(string) // which its hooks are told too
	}
	if use != "" {
		if noted, found := c.callers.Noted(use, tool, c.now()); found {
			claims.ToolUse, claims.Subagent = events.SessionID(noted.Session), noted.Agent != ""
		}
	}
	claims.Meta = codexSessions(meta, codex)
	claims.Subagent = claims.Subagent || len(claims.Meta) > 1
	if there {
		stamped, err := c.stamped(given, tool, use, arguments)
		if err != nil {
			claims.StampFault = err.Error()
		}
		claims.Stamp = events.SessionID(stamped.Session)
		claims.Subagent = claims.Subagent || stamped.Agent != ""
	}
	return claims
}

// stamped reads a stamp, and spends it where the harness gives a call no id by
// which it could be told from a later one with the same input.
func (c *caller) stamped(given, tool, use string, arguments json.RawMessage) (stamp.Claim, error) {
	key, err := c.callers.Key()
	if errors.Is(err, callers.ErrNoKey) {
		return stamp.Claim{}, errors.New("decklog's hook never made one beside this ledger; if one is installed, it works on another ledger")
	}
	if err != nil {
		return stamp.Claim{}, err
	}
	claim, err := stamp.Verify(key, given, tool, use, arguments, c.now())
	if err == nil && use == "" && !c.spent.once(given, c.now()) {
		return stamp.Claim{}, errors.New("it was used for another call already")
	}
	return claim, err
}

// spent are the stamps that were used, for as long as they would be good.
type spent struct {
	mu   sync.Mutex
	used map[string]time.Time
}

// once says whether a stamp is used for the first time.
func (s *spent) once(given string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]time.Time{}
	}
	for old, at := range s.used {
		if now.Sub(at) > 2*stamp.Lifetime {
			delete(s.used, old)
		}
	}
	if _, again := s.used[given]; again {
		return false
	}
	s.used[given] = now
	return true
}

// codexSessions are the sessions that Codex names beside a call: its thread, and
// behind that of a subagent the session that runs it. What another client keeps
// there under such a name is its own.
func codexSessions(meta mcp.Meta, turn map[string]any) (ids []events.SessionID) {
	thread, _ := meta["threadId"].(string)
	if turn == nil || thread == "" {
		return nil
	}
	ids = append(ids, events.SessionID(thread))
	if parent, _ := meta["sessionId"].(string); parent != "" && parent != thread && turn["thread_source"] == "subagent" {
		ids = append(ids, events.SessionID(parent))
	}
	return ids
}

// turnMetadata is an object, or one written as a text.
func turnMetadata(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case string:
		var object map[string]any
		_ = json.Unmarshal([]byte(v), &object) // what is none is as if it were not there
		return object
	}
	return nil
}
