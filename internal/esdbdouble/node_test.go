package esdbdouble_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"decklog/internal/esdbdouble"
)

// The Node client appends over the one call that ours never makes, and has a
// protocol stack of its own: what it reads is not read by our own misreading.
func TestANodeClientReadsWhatGoWroteAndTheOtherWayRound(t *testing.T) {
	dir := os.Getenv("DECKLOG_NODE_CHECK")
	if dir == "" {
		t.Skip("DECKLOG_NODE_CHECK names no folder with the Node client; `make node-check` makes one")
	}
	c, s, _ := open(t)
	c.append("dl.thread-1", esdb.NoStream{}, "a", "b")

	check := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "check.mjs"), s.URL())
	check.Stderr = os.Stderr
	out, err := check.Output()
	if err != nil {
		t.Fatalf("%v, after:\n%s", err, out)
	}
	c.same(strings.Split(strings.TrimSpace(string(out)), "\n"), []string{
		`stream: [["dl.thread-1",0,"` + event("a").EventID.String() + `","said","a",{"by":"@smith"}],` +
			`["dl.thread-1",1,"` + event("b").EventID.String() + `","said","b",{"by":"@smith"}]]`,
		`backwards: 1`,
		`append: [true,1]`,
		`again: true`,
		`conflict: "WrongExpectedVersionError"`,
		`deleted: "StreamNotFoundError"`,
		`subscription: ["dl.thread-1 0","dl.thread-1 1","dl.seat-1 0","dl.seat-1 1","dl.seat-1 2"]`,
	})
	c.same(c.stream("dl.seat-1", esdb.ReadStreamOptions{}), []string{"dl.seat-1 0 node 1", "dl.seat-1 1 node 2", "dl.seat-1 2 live"})
	if s.Calls(esdbdouble.BatchAppend) == 0 || s.Calls(esdbdouble.Append) != 1 {
		t.Errorf("the Node client did not append in batches: %d, %d", s.Calls(esdbdouble.BatchAppend), s.Calls(esdbdouble.Append))
	}
}
