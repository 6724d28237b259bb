package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// setUp writes the harness's configuration as its user would have it, and has
// decklog add what is its own.
func (s *stage) setUp() error {
	if err := s.prepare(s); err != nil {
		return err
	}
	var err error
	if s.before, err = s.filesOfHome(); err != nil {
		return err
	}
	if _, err := s.run("install", s.name, "--yes"); err != nil {
		return err
	}
	if s.after, err = s.filesOfHome(); err != nil {
		return err
	}
	if s.capture == "" {
		return nil
	}
	return s.captures(s)
}

// writeJSON writes a file of the user's.
func (s *stage) writeJSON(path string, value any) error {
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(s.home, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o600)
}

// filesOfHome are the files of the user's home, without decklog's own notes.
func (s *stage) filesOfHome() (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(s.home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.home, path)
		files[name] = string(b)
		return err
	})
	delete(files, ".profile") // the tester's
	delete(files, filepath.Join(".local", "state", "decklog", "installed.json"))
	return files, err
}

// installed says what decklog's installer did to the fresh home: a second run
// changes nothing, and a removal gives back every byte.
func (p *play) installed() error {
	if maps.Equal(p.before, p.after) {
		return fmt.Errorf("the installation changed nothing")
	}
	for name, text := range p.after {
		fmt.Printf("    %-50s %s\n", name, changeOf(p.before, name, text))
	}
	again := *p.stage
	again.home = filepath.Join(p.folder, "home-again")
	if err := os.MkdirAll(again.home, 0o700); err != nil {
		return err
	}
	if err := again.prepare(&again); err != nil {
		return err
	}
	same := func(what string, want map[string]string) error {
		got, err := again.filesOfHome()
		if err != nil {
			return err
		}
		for name := range want {
			if got[name] != want[name] {
				return fmt.Errorf("%s: %s is another than it should be", what, name)
			}
		}
		if len(got) > len(want) {
			return fmt.Errorf("%s: %d files, not %d", what, len(got), len(want))
		}
		return nil
	}
	for _, try := range []struct {
		what string
		args []string
		want map[string]string
	}{
		{"the first installation", []string{"--yes"}, p.after},
		{"the second installation", []string{"--yes"}, p.after},
		{"a check", []string{"--check"}, p.after},
		{"the removal", []string{"--remove", "--yes"}, p.before},
	} {
		if _, err := again.run(append([]string{"install", p.name}, try.args...)...); err != nil {
			return err
		}
		if err := same(try.what, try.want); err != nil {
			return err
		}
	}
	return nil
}

func changeOf(before map[string]string, name, text string) string {
	was, there := before[name]
	switch {
	case !there:
		return "is new"
	case was != text:
		return "is changed"
	}
	return "is as it was"
}
