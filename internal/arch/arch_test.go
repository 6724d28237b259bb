// Package arch holds the test of the arrows: which package may know which. It
// has no code of its own.
package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Name,Dir,Imports,GoFiles", "decklog/...")
	out, err := list.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	d := json.NewDecoder(out)
	for {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := list.Wait(); err != nil || len(all) < 8 {
		t.Fatalf("go list found %d packages: %v", len(all), err)
	}
	return all
}

// ours are the layers, from the innermost; each may know those before it.
var ours = []string{"decklog/events", "decklog/projections", "decklog/commands", "decklog/internal", "decklog/cmd"}

func layer(path string) int {
	return slices.IndexFunc(ours, func(l string) bool { return path == l || strings.HasPrefix(path, l+"/") })
}

func TestImportsPointInward(t *testing.T) {
	for _, p := range packages(t) {
		from := layer(p.ImportPath)
		if from < 0 {
			t.Errorf("%s is in no layer: everything lies in events, projections, commands, internal or cmd", p.ImportPath)
		}
		for _, i := range p.Imports {
			if to := layer(i); to > from {
				t.Errorf("%s imports %s: what decides must not know what carries it out", p.ImportPath, i)
			}
		}
	}
}

// The pure packages may know what computes, and nothing that can tell the time,
// touch a disk, speak to anybody, or be cancelled: else a replay would not be one.
var pure = []string{
	"bytes", "cmp", "crypto/hmac", "crypto/sha1", "crypto/sha256", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
	"maps", "math", "reflect", "regexp", "slices", "strconv", "strings", "sync", "time", "unicode", "unicode/utf8",
}

func TestThePureMiddleKnowsNoClockFileNetworkOrDatabase(t *testing.T) {
	for _, p := range packages(t) {
		if layer(p.ImportPath) > 2 {
			continue
		}
		for _, i := range p.Imports {
			if layer(i) < 0 && !slices.Contains(pure, i) {
				t.Errorf("%s imports %s, which is not among what a decision or a fold may know", p.ImportPath, i)
			}
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, is := n.(*ast.SelectorExpr)
				if !is {
					return true
				}
				if x, is := s.X.(*ast.Ident); is && x.Name == "time" &&
					slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}, s.Sel.Name) {
					t.Errorf("%s/%s calls time.%s: time comes in with the command", p.ImportPath, file, s.Sel.Name)
				}
				return true
			})
		}
	}
}

func TestOnlyTheProgramsNameAConcreteLedger(t *testing.T) {
	ledgers := []string{"decklog/internal/esdb", "decklog/internal/memory", "decklog/internal/sqlite"}
	for _, p := range packages(t) {
		if slices.Contains(ledgers, p.ImportPath) {
			continue // one ledger may be made of another
		}
		for _, i := range p.Imports {
			if slices.Contains(ledgers, i) && layer(p.ImportPath) != len(ours)-1 && p.Name != "main" {
				t.Errorf("%s imports %s: an edge works on whatever ledger it is given", p.ImportPath, i)
			}
		}
	}
}

// A short command pays for every package that it links, at each run.
func TestShortCommandsLinkNothingThatOnlyLongOnesNeed(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "decklog/cmd/decklog").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "decklog/events") {
		t.Fatalf("go list -deps gave %d packages, and not ours", len(linked))
	}
	for _, heavy := range []string{
		"net", "net/http", "database/sql", "text/template", "html/template", "github.com/google/uuid", "github.com/spf13/cobra", "google.golang.org/grpc",
		"charm.land/bubbletea/v2", "charm.land/lipgloss/v2",
	} {
		if slices.Contains(linked, heavy) {
			t.Errorf("decklog links %s, which costs every hook run and every send", heavy)
		}
	}
}
