//go:build faults && linux

package faults_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/ops"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// written makes a ledger of many kinds of event, closes it, and gives its file
// and what it answers.
func written(t *testing.T) (file []byte, asks questions, want [32]byte) {
	t.Helper()
	m := newMachine(t)
	m.policy(unbounded)
	m.join("ada-session", "bob-session", hub)
	m.done("join", "--session", "cleo-session", "--seat", "desk")
	first := ran{stdout: m.done("--json", "send", "--as", "ada-session", "--to", "bob-session", "--intent", "request", "--", "which one?")}.answer().Receipt.ID
	m.hook("bob-session")
	reply := ran{stdout: m.done("--json", "send", "--as", "bob-session", "--reply-to", first, "--", "this one")}.answer().Receipt.ID
	m.done("send", "--as", "ada-session", "--reply-to", reply, "--intent", "done", "--", "thanks")
	m.run("", "send", "--as", "bob-session", "--reply-to", reply, "--", "you are welcome") // refused
	m.run("", "send", "--as", "bob-session", "--to", "nobody-at-all", "--", "hello")       // refused
	m.done("send", "--as", "ada-session", "--to", "@desk", "--intent", "request", "--", "and this?")
	edited := ran{stdout: m.done("--json", "send", "--as", "ada-session", "--to", "bob-session", "--", "a draft")}.answer().Receipt.ID
	m.done("edit", "--as", "ada-session", edited, "--", "the text")
	m.at(begun.Add(time.Minute))
	m.hook("cleo-session")
	h := newHistory()
	w := hire(t, m.ledger, "dan", begun.Add(2*time.Minute))
	for range 150 {
		w.hear(h)
	}
	w.kill(h)
	m.done("verify") // and closes the ledger
	if _, err := os.Stat(m.ledger + "-wal"); !os.IsNotExist(err) {
		t.Fatalf("the ledger is not closed: %v", err)
	}
	file, err := os.ReadFile(m.ledger)
	must(t, err)
	l, err := sqlite.Open(m.ledger, projections.Project)
	must(t, err)
	defer l.Close()
	must(t, l.View(func(r events.Reader) (err error) {
		asks.threads = []string{first, edited}
		asks.all, err = r.All(1, 100_000)
		return err
	}))
	for _, e := range asks.all {
		must(t, l.View(func(r events.Reader) error {
			body, there, err := r.Body(e.ID)
			if there {
				asks.fingerprints = append(asks.fingerprints, body.Fingerprint)
			}
			return err
		}))
	}
	return file, asks, asks.answers(l)
}

// questions are all that a ledger can be asked.
type questions struct {
	all          []events.Recorded
	fingerprints []events.Fingerprint
	threads      []string
}

// answers asks everything, and gives the digest of all answers, errors included.
func (q questions) answers(l *sqlite.Ledger) (sum [32]byte) {
	h := sha256.New()
	say := func(answers ...any) {
		for _, a := range answers {
			if err, is := a.(error); is {
				a = err.Error()
			}
			text, _ := json.Marshal(a)
			h.Write(append(text, '\n'))
		}
	}
	err := l.View(func(r events.Reader) error {
		end, err := r.End()
		say(end, err)
		all, err := r.All(1, 100_000)
		say(all, err)
		streams := map[events.Stream]bool{}
		for _, e := range q.all {
			found, is, err := r.Event(e.ID)
			say(found, is, err)
			body, is, err := r.Body(e.ID)
			say(body, is, err)
			at, err := r.AsOf(e.Time)
			say(at, err)
			if streams[e.Stream] {
				continue
			}
			streams[e.Stream] = true
			head, err := r.Head(e.Stream)
			say(head, err)
			page, err := r.Stream(e.Stream, 0, 100_000)
			say(page, err)
		}
		for _, f := range q.fingerprints {
			id, is, err := r.Alike(f)
			say(id, is, err)
		}
		rows, err := dump(r.Rows())
		say(rows, err)
		for _, row := range rows {
			var backward []string
			err := r.Rows().Scan(row[:2], "", true, func(k string, v []byte) bool { backward = append(backward, k); return len(backward) < 9 })
			say(backward, err)
		}
		return nil
	})
	say(err)
	o := opsOn(l, "", func() events.Time { return events.At(begun.Add(10 * time.Minute)) })
	for _, who := range []string{"ada-session", "bob-session", "cleo-session", hub} {
		for _, at := range []string{"", "20"} {
			inbox, _, err := o.Inbox(ops.InboxRequest{As: who, At: at})
			say(inbox, err)
		}
		owed, _, err := o.Owed(ops.OwedRequest{})
		say(owed, err)
	}
	for _, id := range q.threads {
		for _, at := range []string{"", "12"} {
			view, _, err := o.Thread(ops.ThreadRequest{ID: id, At: at})
			say(view, err)
		}
	}
	peers, _, err := o.Peers(ops.PeersRequest{})
	say(peers, err)
	h.Sum(sum[:0])
	return sum
}

// fate is what becomes of a ledger with a wrong bit.
type fate struct {
	how  string // named, refused, harmless, misnamed, silent, crashed
	what string
}

// refused is fine when it says that the ledger is damaged, or of a newer program.
func refused(what string, err error) fate {
	code := failure.Of(err).Code
	if code != "ledger_damaged" && code != "ledger_newer" {
		return fate{"misnamed", fmt.Sprintf("%s: %s: %v", what, code, err)}
	}
	return fate{"refused", what + ": " + code}
}

func (q questions) fateOf(path string, want [32]byte) (f fate) {
	defer func() {
		if p := recover(); p != nil {
			f = fate{"crashed", fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
	}()
	l, err := sqlite.Open(path, projections.Project)
	if err != nil {
		return refused("open", err)
	}
	defer l.Close()
	got := q.answers(l)
	audited, err := (&ops.Ops{Ledger: l}).Verify()
	switch {
	case err != nil:
		f = refused("verify", err)
	case !audited.OK:
		f = fate{"named", audited.Faults[0].What}
	case got == want:
		f = fate{"harmless", ""}
	default:
		f = fate{"silent", "verify says ok, and the answers differ"}
	}
	// Whoever goes on all the same must not be thrown out either.
	o := opsOn(l, "", func() events.Time { return events.At(begun.Add(20 * time.Minute)) })
	_, _, _ = o.Send(ops.SendRequest{Asker: ops.Asker{As: "ada-session"}, To: "bob-session", Body: []byte("one more")})
	_, _, _ = o.Lease(ops.LeaseRequest{Asker: ops.Asker{As: "bob-session"}})
	_, _ = o.Rebuild()
	return f
}

func TestAFlippedBitIsNamedRefusedOrHarmlessAndNeverSilent(t *testing.T) {
	file, asks, want := written(t)
	fates, samples := map[string]int{}, map[string]int{}
	flips := often(1000, 60)
	for n := range flips {
		at := rand.IntN(8 * len(file))
		if n < 100*flips/1000 {
			at = rand.IntN(8 * 4096) // a tenth in the first page, on which all depends
		}
		damaged := append([]byte{}, file...)
		damaged[at/8] ^= 1 << (at % 8)
		path := filepath.Join(t.TempDir(), "ledger.db")
		must(t, os.WriteFile(path, damaged, 0o600))
		told := make(chan fate, 1)
		go func() { told <- asks.fateOf(path, want) }()
		var f fate
		select {
		case f = <-told:
		case <-time.After(patience):
			t.Fatalf("bit %d of byte %d: it hangs", at%8, at/8)
		}
		_ = os.RemoveAll(filepath.Dir(path))
		fates[f.how]++
		if f.how == "refused" {
			samples[f.what]++
		}
		if f.how == "silent" || f.how == "crashed" || f.how == "misnamed" {
			kept := filepath.Join(t.ArtifactDir(), fmt.Sprint("ledger-", n, ".db"))
			must(t, os.WriteFile(kept, damaged, 0o600))
			t.Errorf("bit %d of byte %d (page %d): %s: %s", at%8, at/8, at/8/4096+1, f.how, f.what)
		}
	}
	t.Logf("%d bits flipped, one at a time, in a ledger of %d bytes and %d events: %v; refused as %v", flips, len(file), len(asks.all), fates, samples)
	if fates["named"]+fates["refused"] == 0 {
		t.Error("no flip did any damage: nothing was tested")
	}
}

// A write-ahead log that a killed process left is another matter: SQLite takes
// it up to the first frame that is not as it was written. A flipped bit there
// cuts the tail of the ledger, of which nothing but a checkpoint kept elsewhere
// can tell; it never changes what stands before.
func TestAFlippedBitInTheLogOfAKilledProcessCutsTheTailAndNothingElse(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger.db")
	h := newHistory()
	w := hire(t, ledger, "dan", begun)
	for range 60 {
		w.hear(h)
	}
	w.kill(h)
	files := drain(t, filepath.Dir(ledger))
	whole := h.holds(t, filepath.Join(pour(t, files), "ledger.db"), "before any flip").events
	cut, flips := 0, often(200, 30)
	for range flips {
		log := append([]byte{}, files["ledger.db-wal"]...)
		at := rand.IntN(8 * len(log))
		log[at/8] ^= 1 << (at % 8)
		damaged := pour(t, map[string][]byte{"ledger.db": files["ledger.db"], "ledger.db-wal": log})
		l, err := sqlite.Open(filepath.Join(damaged, "ledger.db"), projections.Project)
		must(t, err)
		audited, err := (&ops.Ops{Ledger: l}).Verify()
		if err != nil || !audited.OK {
			t.Errorf("bit %d of byte %d of the log: %+v %v", at%8, at/8, audited, err)
		}
		if audited.Position < whole {
			cut++
		}
		must(t, l.Close())
		_ = os.RemoveAll(damaged)
	}
	t.Logf("%d bits flipped, one at a time, in a log of %d bytes: %d cut the tail of %d events, and the rest was whole", flips, len(files["ledger.db-wal"]), cut, whole)
	if cut == 0 {
		t.Error("no flip cut anything: nothing was tested")
	}
}

// What a bit can do to a view: a row is gone, or is no JSON, or says something
// else. Whoever then asks, writes or runs a hook gets an answer or an error.
func TestADamagedRowOfAViewThrowsNobodyOut(t *testing.T) {
	file, asks, _ := written(t)
	base := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.WriteFile(base, file, 0o600))
	l, err := sqlite.Open(base, projections.Project)
	must(t, err)
	rows := map[string][]byte{}
	must(t, l.View(func(r events.Reader) error {
		return r.Rows().Scan("", "", false, func(k string, v []byte) bool { rows[k] = v; return true })
	}))
	must(t, l.Close())
	keys := slices.Sorted(maps.Keys(rows))
	damage := map[string]func([]byte) []byte{
		"gone":    func([]byte) []byte { return nil },
		"no JSON": func(v []byte) []byte { return append([]byte("~"), v...) },
		"empty":   func([]byte) []byte { return []byte("{}") },
		"flipped": func(v []byte) []byte {
			v = append([]byte{}, v...)
			if len(v) > 0 {
				v[rand.IntN(len(v))] ^= 1 << rand.IntN(7)
			}
			return v
		},
	}
	tried, thrown := 0, map[string]bool{}
	stride := len(keys)/often(40, 8) + 1
	for n, key := range keys {
		for how, change := range damage {
			if n%stride != 0 {
				continue
			}
			tried++
			path := filepath.Join(t.TempDir(), "ledger.db")
			must(t, os.WriteFile(path, file, 0o600))
			l, err := sqlite.Open(path, projections.Project)
			must(t, err)
			must(t, l.Update(func(tx events.Tx) error { return tx.Rows().Put(key, change(rows[key])) }))
			for what, do := range asks.doings(l) {
				func() {
					defer func() {
						if p := recover(); p != nil {
							if stack := string(debug.Stack()); !thrown[ours(stack)] {
								thrown[ours(stack)] = true
								t.Errorf("the row %q is %s, and %s panics: %v\n%s", key, how, what, p, ours(stack))
							}
						}
					}()
					do()
				}()
			}
			_ = l.Close()
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	t.Logf("%d rows of %d damaged in %d ways", tried, len(keys), len(damage))
}

// ours are the lines of a stack that are of decklog, below the panic.
func ours(stack string) string {
	var lines []string
	for line := range strings.Lines(stack[strings.LastIndex(stack, "\npanic(")+1:]) {
		if strings.Contains(line, ".go:") && !strings.Contains(line, "/go/src/") && len(lines) < 3 {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// doings are what may be asked of a ledger, reading and writing.
func (q questions) doings(l *sqlite.Ledger) map[string]func() {
	o := opsOn(l, "", func() events.Time { return events.At(begun.Add(11 * time.Minute)) })
	as := func(who string) ops.Asker { return ops.Asker{As: who} }
	all := map[string]func(){
		"everything": func() { q.answers(l) },
		"verify":     func() { _, _ = o.Verify() },
	}
	for _, who := range []string{"ada-session", "bob-session", "cleo-session", hub} {
		all["hook of "+who] = func() {
			_, _, _ = o.Standing(events.SessionID(who), 0)
			_, _ = o.Waits(ops.LeaseRequest{Asker: as(who)})
			offered, _, _ := o.Lease(ops.LeaseRequest{Asker: as(who)})
			_, _, _ = o.Confirm(as(who), offered.ID)
			_ = o.Silence(events.SessionID(who))
		}
		all["send of "+who] = func() {
			for _, to := range []string{"ada-session", "bob-session", "@desk", "cleo"} {
				_, _, _ = o.Send(ops.SendRequest{Asker: as(who), To: to, Body: []byte("to " + to)})
			}
			for n, e := range q.all {
				if sent, is := e.Event.(events.MessageSent); is && n < 30 {
					_, _, _ = o.Send(ops.SendRequest{Asker: as(who), ReplyTo: string(sent.Message), Body: []byte("re " + who)})
				}
			}
		}
		all["leave of "+who] = func() { _, _, _ = o.Leave(ops.LeaveRequest{Asker: as(who), Session: who}) }
		all["join of "+who] = func() { _, _, _ = o.Join(ops.JoinRequest{Session: who, Seat: "desk", Cwd: "/"}) }
		all["sent of "+who] = func() { _, _, _ = o.Inbox(ops.InboxRequest{As: who, Sent: true}) }
	}
	all["edits"] = func() {
		for _, e := range q.all {
			if sent, is := e.Event.(events.MessageSent); is {
				_, _, _ = o.Thread(ops.ThreadRequest{ID: string(sent.Message)})
				_, _, _ = o.Thread(ops.ThreadRequest{ID: string(sent.Thread)})
				_, _, _ = o.Edit(ops.EditRequest{Asker: as(string(sent.Author.ID)), Message: string(sent.Message), Body: []byte("other")})
				_, _, _ = o.Delete(ops.DeleteRequest{Asker: as(string(sent.Author.ID)), Message: string(sent.Message)})
			}
		}
	}
	return all
}
