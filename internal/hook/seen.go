package hook

import (
	"encoding/json"
	"path/filepath"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/internal/render"
	"decklog/internal/transcript"
)

// seekAll looks for whatever is yet to be found in the session's transcript.
func (v *visit) seekAll() error {
	sought, err := v.ops.Sought(v.session())
	if err != nil {
		return err
	}
	return v.seek(sought)
}

// seek looks in the session's own transcript, from where the last look ended, for
// what hooks printed before, and records as read what it finds.
func (v *visit) seek(sought []commands.Sought) error {
	source := transcript.Source{Harness: v.harness.name, File: v.transcript(), Session: v.in.Session}
	if len(sought) == 0 || source.File == "" {
		return nil
	}
	var mark transcript.Mark
	_ = json.Unmarshal(v.notes.Look(v.session()), &mark) // else from the beginning
	found := map[events.LeaseID][]commands.Seen{}
	to, err := source.Read(mark, func(c transcript.Context) {
		for _, frame := range render.Frames(c.Text) {
			if lease, is := printedBy(sought, frame, c.Hook); is {
				found[lease] = append(found[lease], commands.Seen{Message: frame.ID, Attempt: frame.Attempt, Offset: c.Offset, Record: c.Record})
			}
		}
	})
	if err != nil {
		return fault{"transcript", err.Error()}
	}
	for _, s := range sought {
		if found[s.Lease] == nil {
			continue
		}
		r, err := v.ops.Read(ops.ReadRequest{As: v.in.Session, Lease: s.Lease, Harness: v.harness.name, Transcript: source.File, Seen: found[s.Lease]})
		switch {
		case err != nil:
			return err
		case r != nil:
			return refused(r)
		}
	}
	if to == mark {
		return nil
	}
	noted, err := json.Marshal(to)
	if err == nil {
		err = v.notes.NoteLook(v.session(), noted)
	}
	if err != nil {
		return fault{"notes", err.Error()}
	}
	return nil
}

// printedBy is the lease that printed a frame, at this event of the harness where
// the transcript says at which. Of a frame that is there twice the first counts.
func printedBy(sought []commands.Sought, frame render.Frame, hook string) (events.LeaseID, bool) {
	for _, s := range sought {
		if hook != "" && hook != s.Hook {
			continue
		}
		for _, it := range s.Items {
			if it.Message == frame.ID && it.Attempt == frame.Attempt {
				return s.Lease, true
			}
		}
	}
	return "", false
}

// transcript is the session's, as the harness names it. opencode has one file for
// all of them, and names none.
func (v *visit) transcript() string {
	if v.in.Transcript != "" || v.harness.name != "opencode" {
		return v.in.Transcript
	}
	data := v.Environ("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		data = filepath.Join(v.Environ("HOME"), ".local", "share")
	}
	return filepath.Join(data, "opencode", "opencode.db")
}
