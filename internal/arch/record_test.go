package arch

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var writeIndex = flag.Bool("index", false, "write the index of the decision records anew")

const records = "../../adr"

// sections are what every record has, in this order; see the template's text in
// the index.
var sections = []string{"Context", "Decision", "Consequences", "Rejected"}

var (
	recordName  = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	recordTitle = regexp.MustCompile(`^# (\d{4}) (\S.*)$`)
	recordState = regexp.MustCompile(`^Status: (accepted|superseded by \d{4}), \d{4}-\d\d-\d\d$`)
)

func TestEveryDecisionRecordHasItsFormAndItsPlaceInTheIndex(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(records, "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d records: %v", len(files), err)
	}
	index := "# Decisions\n\nOne record for each decision: context, decision, consequences, what was rejected. A record is amended by a\ndated paragraph and superseded by number. `go test ./internal/arch -index` writes this list.\n\n"
	for n, file := range files {
		name := filepath.Base(file)
		number := recordName.FindStringSubmatch(name)
		if number == nil || number[1] != fmt.Sprintf("%04d", n+1) {
			t.Errorf("%s: a record is called NNNN-title.md, and none is left out: this is the %d.", name, n+1)
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		title := recordTitle.FindStringSubmatch(lines[0])
		if title == nil || title[1] != number[1] {
			t.Errorf("%s: its first line is not `# %s Title`", name, number[1])
			continue
		}
		if len(lines) < 3 || !recordState.MatchString(lines[2]) {
			t.Errorf("%s: its third line is no status with a date", name)
		}
		at := 0
		for _, section := range sections {
			next := strings.Index(string(text[at:]), "\n## "+section+"\n")
			if next < 0 {
				t.Errorf("%s: there is no section %q after the one before it", name, section)
				break
			}
			at += next + 1
		}
		if len(lines) > 120 {
			t.Errorf("%s: %d lines; a record is short", name, len(lines))
		}
		index += fmt.Sprintf("- [%s %s](%s)\n", title[1], title[2], name)
	}
	file := filepath.Join(records, "README.md")
	if *writeIndex {
		if err := os.WriteFile(file, []byte(index), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != index {
		t.Errorf("adr/README.md is not the index of the records: go test ./internal/arch -index (%v)", err)
	}
}
