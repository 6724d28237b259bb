package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// The second act's sessions, each on its seat, and its person, who is whoever
// plays it.
const (
	smith   = "smith-of-the-main-job"
	trinity = "trinity-of-the-main-job"
	owner   = "@owner"
)

// roster is the policy of the second act. Its classifier always says route.
const roster = `[[seats]]
name = "smith"
stickers = ["driver-smith"]

[[seats]]
name = "trinity"
stickers = ["driver-trinity"]

[[persons]]
name = "owner"
os_user = %q
home = "smith"
roles = ["owner"]

[[areas]]
seat = "trinity"
priority = 10
match = ["guest-card"]
reason = "guest-card delivery"

[[alerts]]
channel = "#alerts"
triager = "smith"

[routing]
classifier = ["echo", "route"]
`

// drive is the second act: an alert goes by the area map, is driven, handed over,
// accepted, reviewed, and cleared; a person's mention moves another thread; what
// is owed is shown before and after.
func (j *job) drive() error {
	fmt.Printf("\nThe second act: two seats, an alert, a hand-off, a review, and a person who routes\n\n")
	for _, scene := range []func() error{j.seat, j.alert, j.handOver, j.review, j.route, j.settle} {
		if err := scene(); err != nil {
			return err
		}
	}
	return nil
}

// tell runs a command as somebody and reads its JSON answer.
func (j *job) tell(as string, code int, into any, args ...string) error {
	flags := []string{"--json"}
	if as != "" {
		flags = append(flags, "--as", as)
	}
	args = append(flags, args...)
	out, _, err := j.run("", "", code, args...)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

// driver tells who drives a thread, and must hear that it is this seat.
func (j *job) driver(thread, seat string) error {
	out, _, err := j.run("", "", 0, "driver", thread, "--why")
	if err != nil {
		return err
	}
	if !strings.Contains(out, "driven by @"+seat+" ") {
		return fmt.Errorf("thread %s should be driven by %s:\n%s", thread, seat, out)
	}
	quote(out)
	return nil
}

// owed tells what is owed, and must hear of so many items.
func (j *job) owed(count int) error {
	var view struct{ Items []any }
	if err := j.tell("", 0, &view, "owed"); err != nil {
		return err
	}
	if len(view.Items) != count {
		return fmt.Errorf("%d items are owed, not %d", len(view.Items), count)
	}
	out, _, err := j.run("", "", 0, "owed")
	if err == nil {
		quote(out)
	}
	return err
}

func (j *job) seat() error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	file := filepath.Join(filepath.Dir(strings.TrimPrefix(j.ledger, "sqlite:")), "roster.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, roster, me.Username), 0o600); err != nil {
		return err
	}
	if err := j.tell("@"+me.Username, 0, nil, "policy", "adopt", "--policy", file); err != nil {
		return err
	}
	for session, seat := range map[string]string{smith: "smith", trinity: "trinity"} {
		if err := j.tell("", 0, nil, "join", "--session", session, "--seat", seat); err != nil {
			return err
		}
	}
	j.say("a person adopts a policy with the seats smith and trinity; a session sits down on each")
	return nil
}

var alert answered

func (j *job) alert() error {
	if err := j.tell("bot:pager", 0, &alert, "alert", "#alerts", "--", "guest-card delivery: 14 of 20 failed in the last hour"); err != nil {
		return err
	}
	j.say("an alert comes to #alerts: its triager @smith gets it, and the area map gives its thread to @trinity:")
	if err := j.driver(alert.Receipt.Thread, "trinity"); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"send", "--reply-to", alert.Receipt.ID, "--", "Looking: the sync token has run out."},
		{"card", alert.Receipt.Thread, "--subject", "guest-card delivery fails", "--work", owner, "--status", "investigating"},
	} {
		if err := j.tell(trinity, 0, nil, step...); err != nil {
			return err
		}
	}
	j.say("@trinity answers, and its card says that it investigates")
	return nil
}

var offer answered

func (j *job) handOver() error {
	if err := j.tell(trinity, 0, &offer, "handoff", "offer", alert.Receipt.Thread, "--to", "smith", "--reason", "The token is minted in your build."); err != nil {
		return err
	}
	j.say("@trinity offers the work to @smith: until it is accepted @trinity drives, and the answer is owed:")
	if err := j.owed(1); err != nil {
		return err
	}
	if err := j.tell(smith, 0, nil, "handoff", "accept", offer.Receipt.ID); err != nil {
		return err
	}
	j.say("@smith accepts: the stickers and the items follow in the same append")
	return j.driver(alert.Receipt.Thread, "smith")
}

func (j *job) review() error {
	const commit = "4f2a9c1d00aa"
	var asked answered
	if err := j.tell(smith, 0, &asked, "review", "ask", alert.Receipt.Thread, "--commit", commit, "--author", "@smith"); err != nil {
		return err
	}
	if _, _, err := j.run("", "", 3, "review", "check", alert.Receipt.Thread, "--commit", commit); err != nil {
		return err
	}
	if err := j.tell(trinity, 0, nil, "review", "label", asked.Receipt.ID, "root", "low"); err != nil {
		return err
	}
	if _, _, err := j.run("", "", 0, "review", "check", alert.Receipt.Thread, "--commit", commit); err != nil {
		return err
	}
	if _, _, err := j.run("", "", 3, "review", "check", alert.Receipt.Thread, "--commit", "5b1e0d2e11bb"); err != nil {
		return err
	}
	j.say("@trinity reviews the fix: root, low. That commit may be merged with no person; another may not")
	return nil
}

func (j *job) route() error {
	var root, mention answered
	if err := j.tell(owner, 0, &root, "send", "--intent", "request", "--", "The nightly report is empty since Friday."); err != nil {
		return err
	}
	if err := j.tell(owner, 0, &mention, "send", "--reply-to", root.Receipt.ID, "--", "@trinity can you take this? It smells of the sync."); err != nil {
		return err
	}
	j.say("a person writes; the thread goes to their home seat @smith; a mention of @trinity moves it, and its item:")
	if err := j.driver(root.Receipt.Thread, "trinity"); err != nil {
		return err
	}
	if err := j.owed(2); err != nil { // the hand-off, and the person's request
		return err
	}
	return j.tell(trinity, 0, nil, "send", "--reply-to", root.Receipt.ID, "--", "It was the same token; the report is whole again.")
}

// settle closes what is open: nothing is owed, and the ledger verifies.
func (j *job) settle() error {
	for _, step := range [][]string{
		{"card", alert.Receipt.Thread, "--subject", "guest-card delivery fails", "--work", owner, "--status", "done"},
		{"handoff", "close", offer.Receipt.ID},
		{"send", "--reply-to", alert.Receipt.ID, "--to", "@trinity", "--intent", "done", "--", "Merged and delivered: 20 of 20."},
	} {
		if err := j.tell(smith, 0, nil, step...); err != nil {
			return err
		}
	}
	j.say("@smith merges, closes the hand-off and the thread: nothing is owed")
	return j.owed(0)
}
