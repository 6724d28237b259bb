package token_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/token"
)

var now = events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))

func made(t *testing.T, tokens *token.Tokens, n token.New) (token.Token, string) {
	t.Helper()
	if n.Participant == "" {
		n.Participant = "@ana"
	}
	if n.Scope == "" {
		n.Scope = token.Write
	}
	tok, text, err := tokens.Create(n, now)
	if err != nil {
		t.Fatal(err)
	}
	return tok, text
}

func TestATokenIsGoodUntilItIsRevokedOrExpires(t *testing.T) {
	tokens := token.Open(t.TempDir())
	soon := now.Add(time.Hour)
	tok, text := made(t, tokens, token.New{Participant: "@ana", Scope: token.Read, Label: "phone", Expires: &soon})
	if got, err := tokens.Check(text, now); err != nil || got.ID != tok.ID || got.Participant != "@ana" || got.Scope != token.Read || got.Label != "phone" {
		t.Errorf("%+v %v", got, err)
	}
	if token.IDIn(text) != tok.ID {
		t.Errorf("the id of %s is %s", tok.ID, token.IDIn(text))
	}
	if _, err := tokens.Check(text, soon.Add(-time.Microsecond)); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	if _, err := tokens.Check(text, soon); !errors.Is(err, token.ErrExpired) {
		t.Errorf("at its end: %v", err)
	}
	if _, err := tokens.Revoke(tok.ID, now); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Check(text, now); !errors.Is(err, token.ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
	again, err := tokens.Revoke(tok.ID, now.Add(time.Minute))
	if err != nil || *again.Revoked != now {
		t.Errorf("revoked again: %+v %v", again, err)
	}
	if _, err := tokens.Revoke("aaaaaaaa", now); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("revoked what is not there: %v", err)
	}
}

// What is told of a token that is none must not help to find one.
func TestWhatIsNoTokenIsUnknownWhateverItResembles(t *testing.T) {
	tokens := token.Open(t.TempDir())
	tok, text := made(t, tokens, token.New{})
	if _, err := tokens.Revoke(tok.ID, now); err != nil {
		t.Fatal(err)
	}
	_, other := made(t, tokens, token.New{})
	last := "a"
	if strings.HasSuffix(text, "a") {
		last = "q"
	}
	for what, bad := range map[string]string{
		"nothing": "", "garbage": "garbage", "only its id": "dlk_" + tok.ID, "its id and no secret": "dlk_" + tok.ID + "_",
		"truncated": text[:len(text)-1], "one letter changed": text[:len(text)-1] + last, "something behind it": text + "a",
		"a line end behind it": text + "\n", "upper case": strings.ToUpper(text), "the secret of another": text[:13] + other[13:],
		"an unknown id": "dlk_aaaaaaaa" + text[12:], "long": strings.Repeat(text, 1000), "the machine's id": "dlk_machine_" + text[13:],
		"a path": "dlk_../../x" + text[12:], "no UTF-8": "dlk_\xff\xfe", "a NUL": text[:20] + "\x00" + text[21:],
	} {
		if got, err := tokens.Check(bad, now); !errors.Is(err, token.ErrUnknown) || got != (token.Token{}) {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
	if _, err := tokens.Check(other, now); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func TestTheFileIsItsOwnersAloneAndHoldsNoSecret(t *testing.T) {
	dir := t.TempDir()
	_, text := made(t, token.Open(dir), token.New{})
	info, err := os.Stat(filepath.Join(dir, token.FileName))
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || strings.Contains(string(b), text[13:]) {
			t.Errorf("%s holds the secret: %v", f.Name(), err)
		}
		if strings.HasSuffix(f.Name(), ".new") {
			t.Errorf("%s was left", f.Name())
		}
	}
}

// A running server and the command line are two processes. The server keeps what
// it read; neither a change within one step of the file's clock nor a file of the
// same size may pass unseen.
func TestWhatOneProcessChangesHoldsForAnotherAtOnce(t *testing.T) {
	dir := t.TempDir()
	server := token.Open(dir)
	for range 50 {
		command := token.Open(dir)
		tok, text := made(t, command, token.New{})
		if _, err := server.Check(text, now); err != nil {
			t.Fatalf("made, and not good: %v", err)
		}
		if _, err := command.Revoke(tok.ID, now); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Check(text, now); !errors.Is(err, token.ErrRevoked) {
			t.Fatalf("revoked, and still: %v", err)
		}
	}
	// An old file is not read again, and a newer one is.
	file := filepath.Join(dir, token.FileName)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	_, _ = server.Check("", now)
	tok, text := made(t, token.Open(dir), token.New{})
	if _, err := server.Check(text, now); err != nil {
		t.Errorf("after a while: %v", err)
	}
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	_, _ = server.Check(text, now)
	if _, err := token.Open(dir).Revoke(tok.ID, now); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Check(text, now); !errors.Is(err, token.ErrRevoked) {
		t.Errorf("revoked after a while: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Check(text, now); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("without a file: %v", err)
	}
}

func TestOfManyThatChangeTheTokensAtOnceNoneLosesItsChange(t *testing.T) {
	dir := t.TempDir()
	const many = 24
	texts := make([]string, many)
	var ready, done sync.WaitGroup
	ready.Add(many)
	for i := range many {
		done.Go(func() {
			tokens := token.Open(dir)
			ready.Done()
			ready.Wait()
			tok, text, err := tokens.Create(token.New{Participant: "@ana", Scope: token.Write}, now)
			if err == nil && i%2 == 0 {
				_, err = tokens.Revoke(tok.ID, now)
			}
			if err != nil {
				t.Error(err)
			}
			texts[i] = text
		})
	}
	done.Wait()
	for i, text := range texts {
		_, err := token.Open(dir).Check(text, now)
		if revoked := errors.Is(err, token.ErrRevoked); revoked != (i%2 == 0) || !revoked && err != nil {
			t.Errorf("token %d: %v", i, err)
		}
	}
}

// Nobody gets in by a file that cannot be read, and nothing is written over it.
func TestADamagedFileLetsNobodyIn(t *testing.T) {
	dir := t.TempDir()
	_, text := made(t, token.Open(dir), token.New{})
	file := filepath.Join(dir, token.FileName)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) func() error { return func() error { return os.WriteFile(file, []byte(s), 0o600) } }
	change := func(from, to string) func() error {
		changed := strings.Replace(string(good), from, to, 1)
		if changed == string(good) {
			t.Fatalf("there is no %s in %s", from, good)
		}
		return write(changed)
	}
	hash := string(good)[strings.Index(string(good), `"sha256": "`)+11:][:64]
	for what, damage := range map[string]func() error{
		"empty": write(""), "cut off": write(string(good[:len(good)-5])), "something behind": write(string(good) + "{}"),
		"another version": change(`"version": 1`, `"version": 2`), "an unknown field": change(`"label"`, `"only_from": "x", "label"`),
		"no hash": change(hash, ""), "a hash of nothing": change(hash, strings.Repeat("0", 64)), "no scope": change(`"write"`, `"all"`),
		"of the machine": change(`"@ana"`, `"machine"`), "too large": write(strings.Repeat(" ", 2<<20)),
		"readable by others": func() error { return os.Chmod(file, 0o640) },
		"a link": func() error {
			return errors.Join(os.WriteFile(file+".else", good, 0o600), os.Remove(file), os.Symlink(file+".else", file))
		},
		"a folder": func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	} {
		tokens := token.Open(dir)
		if _, err := tokens.Check(text, now); err != nil {
			t.Fatalf("before %s: %v", what, err)
		}
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"check":  func() error { _, err := tokens.Check(text, now); return err }(),
			"list":   func() error { _, err := tokens.List(); return err }(),
			"revoke": func() error { _, err := tokens.Revoke(token.IDIn(text), now); return err }(),
			"create": func() error {
				_, _, err := tokens.Create(token.New{Participant: "@ana", Scope: token.Read}, now)
				return err
			}(),
		} {
			if !errors.Is(err, token.ErrDamaged) {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, good, 0o600), os.Chmod(file, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsRevokedOrExpiredMakesRoomAndNothingElseDoes(t *testing.T) {
	dir := t.TempDir()
	tokens := token.Open(dir)
	first, text := made(t, tokens, token.New{})
	soon := now.Add(time.Minute)
	full(t, filepath.Join(dir, token.FileName), soon)
	n := token.New{Participant: "@ana", Scope: token.Write}
	if _, _, err := tokens.Create(n, now); !errors.Is(err, token.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if _, _, err := tokens.Create(n, soon); err != nil {
		t.Errorf("once the others expired: %v", err)
	}
	list, err := tokens.List()
	if err != nil || len(list) != 2 || list[0].ID != first.ID {
		t.Errorf("%d are kept: %v", len(list), err)
	}
	if _, err := tokens.Check(text, soon); err != nil {
		t.Error(err)
	}
}

// full fills a file of one token up with others, each as the one that is there
// but for its id and its end.
func full(t *testing.T, file string, end events.Time) {
	t.Helper()
	var d struct {
		Version int              `json:"version"`
		Tokens  []map[string]any `json:"tokens"`
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	for len(d.Tokens) < token.TokensMax {
		next := maps.Clone(d.Tokens[0])
		n := len(d.Tokens)
		next["id"] = "aaaaa" + string(rune('a'+n%26)) + string(rune('a'+n/26%26)) + string(rune('a'+n/676))
		next["expires"] = end
		d.Tokens = append(d.Tokens, next)
	}
	if b, err = json.Marshal(d); err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestATokenThatSaysNothingIsNotMade(t *testing.T) {
	tokens := token.Open(t.TempDir())
	for what, n := range map[string]token.New{
		"nobody": {Scope: token.Read}, "no scope": {Participant: "@ana"}, "the machine": {Participant: token.Machine, Scope: token.Write},
		"a control character": {Participant: "@a\x1bna", Scope: token.Read}, "a long label": {Participant: "@ana", Scope: token.Read, Label: strings.Repeat("x", token.LabelBytesMax+1)},
		"a label of two lines": {Participant: "@ana", Scope: token.Read, Label: "a\nb"}, "an end that has passed": {Participant: "@ana", Scope: token.Read, Expires: &now},
	} {
		if _, _, err := tokens.Create(n, now); err == nil {
			t.Errorf("for %s one is made", what)
		}
	}
	if list, err := tokens.List(); err != nil || len(list) > 0 {
		t.Errorf("%v %v", list, err)
	}
}

func TestTheMachinesTokenIsMadeOnceAndIsItsOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	if _, err := token.OfMachine(dir); !errors.Is(err, token.ErrNoMachine) {
		t.Errorf("before any was made: %v", err)
	}
	const many = 8
	texts := make([]string, many)
	var ready, done sync.WaitGroup
	ready.Add(many)
	for i := range many {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			var err error
			if texts[i], err = token.MakeMachine(dir); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	tokens := token.Open(dir)
	for _, text := range texts {
		got, err := tokens.Check(text, now)
		if err != nil || !got.OfMachine() || got.Scope != token.Write || text != texts[0] {
			t.Fatalf("%+v %v", got, err)
		}
	}
	file := filepath.Join(dir, token.MachineFileName)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if text, err := token.OfMachine(dir); err != nil || text != texts[0] {
		t.Errorf("%q %v", text, err)
	}
	if list, err := tokens.List(); err != nil || len(list) != 0 {
		t.Errorf("it is listed: %v %v", list, err)
	}
	// Taken away it is good no more, and the next one is another.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Check(texts[0], now); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("without its file: %v", err)
	}
	next, err := token.MakeMachine(dir)
	if err != nil || next == texts[0] {
		t.Errorf("%v", err)
	}
	if _, err := tokens.Check(texts[0], now); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("the one before: %v", err)
	}
	// A file that others can read is none.
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Check(next, now); !errors.Is(err, token.ErrDamaged) {
		t.Errorf("readable by others: %v", err)
	}
	if _, err := token.MakeMachine(dir); !errors.Is(err, token.ErrDamaged) {
		t.Errorf("readable by others, made over: %v", err)
	}
}

// Somebody pastes a token into a message: it must not stay in the ledger.
func TestATokenInABodyIsMasked(t *testing.T) {
	dir := t.TempDir()
	_, text := made(t, token.Open(dir), token.New{})
	machine, err := token.MakeMachine(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{text, machine} {
		masked, kinds := commands.Mask([]byte("use " + secret + ", please"))
		if string(masked) != "use [masked:decklog-token], please" || len(kinds) != 1 {
			t.Errorf("%s %v", masked, kinds)
		}
	}
}

func TestAScopeIsEnoughForItselfAndWhatItIncludes(t *testing.T) {
	for _, c := range []struct {
		has, needs token.Scope
		may        bool
	}{
		{token.Write, token.Write, true}, {token.Write, token.Read, true}, {token.Read, token.Read, true}, {token.Read, token.Write, false},
		{"", token.Read, false}, {"", "", false}, {"all", token.Read, false}, {token.Write, "", false},
	} {
		if c.has.May(c.needs) != c.may {
			t.Errorf("%q for %q: %t", c.has, c.needs, !c.may)
		}
	}
}

func FuzzATextThatIsNoTokenIsNeverTakenForOne(f *testing.F) {
	dir := f.TempDir()
	tokens := token.Open(dir)
	_, good, err := tokens.Create(token.New{Participant: "@ana", Scope: token.Read}, now)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", good, good[1:], "dlk_machine_", "dlk__", strings.ToUpper(good)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := tokens.Check(text, now)
		if (err == nil) != (text == good) {
			t.Errorf("%q: %v", text, err)
		}
		if id := token.IDIn(text); id != "" && !strings.HasPrefix(text, "dlk_"+id+"_") {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}
