package projections_test

import (
	"testing"

	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// work is the rows of one unit of work, of a ledger that keeps its fold.
type work struct {
	*rows.Rows
	fold *any
}

func (w *work) Kept() any     { return *w.fold }
func (w *work) Keep(fold any) { *w.fold = fold }

// A unit of work that was undone leaves the rows as they were, and the fold goes on
// from there.
func TestAStateGoesOnBehindAUnitOfWorkThatWasUndone(t *testing.T) {
	history := placed(
		events.SessionJoined{Session: "s1", Cwd: "/a"}, events.SessionJoined{Session: "s2", Cwd: "/a"},
		events.SessionJoined{Session: "s1", Cwd: "/b"}, events.SessionLeft{Session: "s2"}, events.SessionJoined{Session: "s1", Cwd: "/c"},
	)
	for undone := range len(history) {
		var fold any
		r := rows.New()
		if err := projections.Project(&work{r, &fold}, history[:undone]); err != nil {
			t.Fatal(err)
		}
		state := projections.On(&work{r, &fold})
		before := listed(t, r)
		if !state.Ended(false) {
			t.Fatal("it does not go on behind what is part of the ledger")
		}
		tried := copied(t, r)
		if err := projections.Project(&work{tried, &fold}, history[undone:]); err != nil {
			t.Fatal(err)
		}
		if !state.Ended(true) {
			t.Fatal("it does not go on")
		}
		for _, e := range history[undone:] {
			if err := projections.Project(&work{r, &fold}, []events.Recorded{e}); err != nil {
				t.Fatal(err)
			}
		}
		if got := projections.On(&work{r, &fold}); got != state && undone > 0 {
			t.Errorf("after %d events another state goes on", undone)
		}
		fresh := rows.New()
		if err := projections.Project(fresh, history); err != nil {
			t.Fatal(err)
		}
		if got, want := listed(t, r), listed(t, fresh); got != want || undone > 0 && before == want {
			t.Errorf("after %d events and a unit that was undone the rows are\n%s\nnot\n%s", undone, got, want)
		}
	}
}

// listed are all rows.
func listed(t *testing.T, r *rows.Rows) (all string) {
	t.Helper()
	if err := r.Scan("", "", false, func(key string, value []byte) bool { all += key + "=" + string(value) + "\n"; return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

func copied(t *testing.T, r *rows.Rows) *rows.Rows {
	t.Helper()
	other := rows.New()
	if err := r.Scan("", "", false, func(key string, value []byte) bool { return other.Put(key, value) == nil }); err != nil {
		t.Fatal(err)
	}
	return other
}

func TestAStateGoesOnUntilSomebodyElseWrites(t *testing.T) {
	var fold any
	r := rows.New()
	begin := func() *work { return &work{r, &fold} }
	history := placed(
		events.SessionJoined{Session: "s1", Cwd: "/a"}, events.SessionJoined{Session: "s1", Cwd: "/b"}, events.SessionJoined{Session: "s1", Cwd: "/c"},
	)
	first := begin()
	if err := projections.Project(first, history[:1]); err != nil {
		t.Fatal(err)
	}
	ours := projections.On(first)
	if ours.Session("s1").Cwd != "/a" || projections.On(begin()) != ours {
		t.Error("one who wrote alone begins anew")
	}
	if err := projections.Project(r, history[1:2]); err != nil { // another process
		t.Fatal(err)
	}
	theirs := projections.On(begin())
	if theirs == ours || theirs.Session("s1").Cwd != "/b" {
		t.Errorf("after another's event the session is in %s", theirs.Session("s1").Cwd)
	}
	if err := projections.Project(begin(), history[2:]); err != nil {
		t.Fatal(err)
	}
	if s := projections.On(begin()); s != theirs || s.Session("s1").Cwd != "/c" || s.Position() != 3 {
		t.Errorf("at %d the session is in %s", s.Position(), s.Session("s1").Cwd)
	}
	if s := projections.On(r); s.Session("s1").Cwd != "/c" {
		t.Errorf("its row has %s", s.Session("s1").Cwd)
	}
}
