package callers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"decklog/internal/bell"
)

// Use is a call of one of decklog's tools, as the pre-tool hook saw it.
type Use struct {
	Session string    `json:"session"`
	Agent   string    `json:"agent,omitempty"` // a subagent's id
	Tool    string    `json:"tool"`
	Made    time.Time `json:"made"`
}

// The bounds of what is kept. A call comes soon after its hook, unless a person
// is asked to allow it.
const (
	useLifetime = time.Hour
	usesMax     = 256
)

func (c Callers) uses() string { return filepath.Join(c.dir, "tool-uses") }

// path is the file of a call; empty when its id can have none.
func (c Callers) path(id string) string {
	name := bell.Name(id)
	if c.None() || name == "" {
		return ""
	}
	return filepath.Join(c.uses(), name)
}

// Note keeps which session makes a call, under the harness's id of it.
func (c Callers) Note(id string, u Use) error {
	file := c.path(id)
	if file == "" {
		return nil
	}
	if err := os.Mkdir(c.uses(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("note tool use: %w", err)
	}
	c.prune(u.Made)
	text, err := json.Marshal(u)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note tool use: %w", err)
	}
	return nil
}

// Noted is the call of a tool under an id; false when no hook saw it lately. It
// is forgotten by that: each call is asked about once.
func (c Callers) Noted(id, tool string, now time.Time) (u Use, found bool) {
	file := c.path(id)
	if file == "" {
		return Use{}, false
	}
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &u) != nil {
		return Use{}, false
	}
	_ = os.Remove(file)
	age := now.Sub(u.Made)
	if u.Session == "" || u.Tool != tool || age < -time.Minute || age > useLifetime {
		return Use{}, false
	}
	return u, true
}

// prune forgets the calls that never came to a server, once many are kept.
func (c Callers) prune(now time.Time) {
	kept, err := os.ReadDir(c.uses())
	if err != nil || len(kept) < usesMax {
		return
	}
	for _, entry := range kept {
		info, err := entry.Info()
		if err == nil && now.Sub(info.ModTime()) > useLifetime || len(kept) >= 4*usesMax {
			_ = os.Remove(filepath.Join(c.uses(), entry.Name()))
		}
	}
}
