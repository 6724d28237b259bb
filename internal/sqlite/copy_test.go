package sqlite

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"decklog/events"
)

// taken are the events of a ledger, as another would take them.
func taken(t *testing.T, l *Ledger) (all []Arrived) {
	t.Helper()
	must(t, l.View(func(r events.Reader) error {
		found, err := r.All(1, 1000)
		for _, e := range found {
			body, there, err := r.Body(e.ID)
			if err != nil {
				return err
			}
			all = append(all, Arrived{Recorded: e})
			if there {
				all[len(all)-1].Body = &body
			}
		}
		return err
	}))
	return all
}

func TestWhatIsTakenLiesWhereItLay(t *testing.T) {
	from := opened(t, filepath.Join(t.TempDir(), "from.db"), testOptions())
	for _, b := range []events.Batch{note("a", -1, "1"), note("a", 0, "2"), note("b", -1, "3"), note("a", 1, "4")} {
		must(t, appendTo(from, b))
	}
	all := taken(t, from)
	to := opened(t, filepath.Join(t.TempDir(), "to.db"), testOptions())
	must(t, to.Take(nil))
	must(t, to.Take(all[:3]))
	for name, wrong := range map[string][]Arrived{"what was taken": all[:1], "what does not follow": {all[3], all[3]}} {
		if err := to.Take(wrong); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := to.Take(all[2:]); !errors.Is(err, events.ErrConflict) {
		t.Errorf("out of its place: %v", err)
	}
	if got := taken(t, to); !reflect.DeepEqual(got, all[:3]) {
		t.Errorf("it has %+v", got)
	}
	must(t, to.Take(all[3:]))
	if got := taken(t, to); !reflect.DeepEqual(got, all) {
		t.Errorf("it has %+v", got)
	}
	// It is a ledger like any other.
	must(t, appendNext(to, "a", "5"))
}

// An event whose digest is not what its bytes make is not taken, nor those with it.
func TestWhatWouldHaveAnotherDigestIsNotTaken(t *testing.T) {
	from := opened(t, filepath.Join(t.TempDir(), "from.db"), testOptions())
	must(t, appendTo(from, note("a", -1, "1")))
	must(t, appendTo(from, note("b", -1, "2")))
	all := taken(t, from)
	all[1].Actor = "@somebody"
	to := opened(t, filepath.Join(t.TempDir(), "to.db"), testOptions())
	if err := to.Take(all); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if got := taken(t, to); len(got) != 0 {
		t.Errorf("it has %+v", got)
	}
}
