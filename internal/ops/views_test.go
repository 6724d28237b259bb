package ops_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// tampers changes the rows of the views behind the back of everybody.
func (d *desk) tampers(change func(events.Rows) error) {
	d.t.Helper()
	if err := d.Ledger.Update(func(tx events.Tx) error { return change(tx.Rows()) }); err != nil {
		d.t.Fatal(err)
	}
}

func played(t *testing.T) *desk {
	d := newDesk(t)
	d.ready(alice, bob)
	asked := d.send(alice, request(bob, "question"))
	d.take(bob)
	d.send(bob, reply(asked.ID, "answer"))
	d.verified()
	return d
}

func TestAnAuditNamesTheRowThatIsNotWhatTheEventsMake(t *testing.T) {
	for what, change := range map[string]func(events.Rows) error{
		"is not what": func(r events.Rows) error {
			v, err := r.Get("session\t" + alice)
			return errors.Join(err, r.Put("session\t"+alice, []byte(strings.Replace(string(v), "main", "evil", 1))))
		},
		"no event explains": func(r events.Rows) error { return r.Put("session\tnobody", []byte("{}")) },
		"lack the row":      func(r events.Rows) error { return r.Put("live\t"+alice, nil) },
	} {
		t.Run(what, func(t *testing.T) {
			d := played(t)
			d.tampers(change)
			a, err := d.Verify()
			if err != nil || a.OK || len(a.Faults) != 1 || !strings.Contains(a.Faults[0].What, what) {
				t.Fatalf("found %+v, %v", a, err)
			}
			// F21: thrown away and made anew, they are what the events make.
			before := d.end()
			if built, err := d.Rebuild(); err != nil || built.Position != before || d.end() != before {
				t.Fatalf("rebuilt %+v, %v", built, err)
			}
			d.verified()
		})
	}
}

func TestARebuildMakesTheSameRows(t *testing.T) {
	d := played(t)
	want := d.rows()
	first, err := d.Rebuild()
	if err != nil || !slices.Equal(d.rows(), want) || first.Rows != len(want) {
		t.Fatalf("rebuilt %+v, %v", first, err)
	}
	if again, err := d.Rebuild(); err != nil || again != first {
		t.Errorf("rebuilt again %+v, %v", again, err)
	}
}

func TestRowsOfAnOlderFoldAreMadeAnewAndThoseOfANewerAreLeftAlone(t *testing.T) {
	fold := func(n int) func(events.Rows) error {
		return func(r events.Rows) error {
			c, err := projections.ReadCheckpoint(r)
			return errors.Join(err, r.Put("checkpoint", fmt.Appendf(nil, `{"position":%d,"fold":%d}`, c.Position, n)))
		}
	}
	for what, use := range map[string]func(*desk) error{
		"by a command": func(d *desk) error {
			_, _, err := d.Send(ops.SendRequest{Asker: ops.Asker{As: alice}, To: bob, Body: []byte("x")})
			return err
		},
		"by a look":   func(d *desk) error { _, _, err := d.Inbox(ops.InboxRequest{As: alice}); return err },
		"by an audit": func(d *desk) error { _, err := d.Verify(); return err },
	} {
		t.Run(what, func(t *testing.T) {
			d := played(t)
			d.tampers(fold(projections.FoldVersion - 1))
			d.tampers(func(r events.Rows) error { return r.Put("session\tan older form", []byte("?")) })
			if err := use(d); err != nil {
				t.Fatal(err)
			}
			d.verified()
			if what == "by an audit" {
				return
			}
			d.tampers(fold(projections.FoldVersion + 1))
			before := d.end()
			if err := use(d); !errors.Is(err, events.ErrNewer) || d.end() != before {
				t.Errorf("used a newer ledger: %v", err)
			}
		})
	}
}

// The events are not what is in doubt when a row cannot be read.
func TestADamagedRowFailsACommandAndRecordsNothing(t *testing.T) {
	d := played(t)
	d.tampers(func(r events.Rows) error { return r.Put("session\t"+alice, []byte("{")) })
	before := d.end()
	if _, r, err := d.Send(ops.SendRequest{Asker: ops.Asker{As: alice}, To: bob, Body: []byte("x")}); r != nil || !errors.Is(err, events.ErrDamaged) {
		t.Errorf("sent: %+v %v", r, err)
	}
	if d.end() != before {
		t.Errorf("recorded %+v", d.recorded(before))
	}
	if _, err := d.Rebuild(); err != nil {
		t.Fatal(err)
	}
	d.send(alice, inform(bob, "x"))
	d.verified()
}
