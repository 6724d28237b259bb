package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"decklog/commands"
	"decklog/events"
)

// scenarios are the specification's files, by name.
func scenarios(t *testing.T) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("../../testdata/scenarios/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no scenarios: %v", err)
	}
	all := map[string]*txtar.Archive{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = txtar.Parse(text)
	}
	return all
}

func TestEachRefusalAndEachEventHasAScenario(t *testing.T) {
	var acts, streams strings.Builder
	for _, a := range scenarios(t) {
		acts.Write(a.Comment)
		for _, f := range a.Files {
			if f.Name == "want" {
				streams.Write(f.Data)
			}
		}
	}
	for _, c := range commands.Codes() {
		if !strings.Contains(acts.String(), "\nis refusal.code "+string(c)+"\n") {
			t.Errorf("no scenario is refused with %s", c)
		}
	}
	for _, e := range events.Types() {
		if !strings.Contains(streams.String(), " "+string(e)+" by ") {
			t.Errorf("in no scenario's streams there is a %s", e)
		}
	}
}

// A scenario says first what must hold and why, and compares all that happened.
// One in which nothing can happen says so by having no stream to compare.
func TestEachScenarioSaysWhatHoldsAndComparesItsStreams(t *testing.T) {
	for name, a := range scenarios(t) {
		script := string(a.Comment)
		title, rest, _ := strings.Cut(script, "\n")
		why, _, _ := strings.Cut(rest, "\n\n")
		if !strings.HasPrefix(title, "# ") || len(title) < 20 {
			t.Errorf("%s has no title", name)
		}
		if !strings.Contains(why, "#\n# ") {
			t.Errorf("%s does not say why", name)
		}
		compares := strings.Contains(script, "\ncmp streams want\n")
		has := slices.ContainsFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
		if compares != has || !compares && strings.Contains(script, "decklog join") {
			t.Errorf("%s compares its streams: %t; has some to compare: %t", name, compares, has)
		}
	}
}
