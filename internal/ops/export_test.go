package ops_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/cloudevents"
	"decklog/internal/ops"
	"decklog/internal/rows"
	"decklog/projections"
)

// exported gives an export as the lines that a stranger reads.
func (d *desk) exported(q ops.ExportRequest) (lines [][]byte) {
	d.t.Helper()
	first, _, err := ops.First(d.Ops)
	if err != nil {
		d.t.Fatal(err)
	}
	refused, err := ops.Export(d.Ops, q, func(e ops.Exported) error {
		var text *cloudevents.Text
		if e.Body != nil {
			text = &cloudevents.Text{Body: e.Body.Text, Gone: e.Body.Gone}
		}
		line, err := json.Marshal(cloudevents.Of(e.Recorded, cloudevents.Source(first), text))
		lines = append(lines, line)
		return err
	})
	if refused != nil || err != nil {
		d.t.Fatalf("export %+v: %+v %v", q, refused, err)
	}
	return lines
}

// stranger reads a line with the standard's own program and makes of it what was
// recorded, by nothing but the attributes.
func stranger(t *testing.T, e event.Event) events.Recorded {
	t.Helper()
	extension := func(name string) string {
		s, err := types.ToString(e.Extensions()[name])
		if err != nil && e.Extensions()[name] != nil {
			t.Fatalf("the extension %s of %s is no text: %v", name, e, err)
		}
		return s
	}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("%q of %s: %v", s, e, err)
		}
		return n
	}
	schema := strings.Split(e.DataSchema(), "/")
	version := int(number(schema[len(schema)-1]))
	recorded := events.Recorded{
		Position: events.Position(number(extension("sequence"))), Stream: events.Stream(e.Subject()), Revision: events.Revision(number(extension("revision"))),
		ID: events.EventID(e.ID()), Time: events.At(e.Time()), Actor: events.Participant(extension("actor")),
		Cause:  events.Cause{Command: events.CommandID(extension("correlationid")), Event: events.EventID(extension("causationid"))},
		Policy: events.Position(number(extension("policy"))), Version: version, Data: e.Data(),
	}
	decoded, err := events.Decode(events.Type(strings.TrimPrefix(e.Type(), cloudevents.TypePrefix)), version, e.Data())
	if err != nil {
		t.Fatalf("decode %s: %v", e, err)
	}
	recorded.Event = decoded
	return recorded
}

var attributeName = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

func TestAStrangerReadsEveryExportedEventAndFoldsTheSameViews(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() { // each is a history of its own
		seeds = 5
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		h := newHistory(t, rand.New(rand.NewPCG(seed, 7)).IntN)
		h.steps(60)
		recorded := h.recorded(0)
		lines := h.exported(ops.ExportRequest{})
		if len(lines) != len(recorded) {
			t.Fatalf("seed %d: %d events are exported of %d", seed, len(lines), len(recorded))
		}
		again := rows.New()
		ids := map[string]bool{}
		before := ""
		for i, line := range lines {
			var e event.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, line)
			}
			if err := e.Validate(); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, line)
			}
			var names map[string]json.RawMessage
			if err := json.Unmarshal(line, &names); err != nil {
				t.Fatal(err)
			}
			for name := range names {
				if !attributeName.MatchString(name) {
					t.Errorf("the attribute %q is none that the standard allows", name)
				}
			}
			got := stranger(t, e)
			want := recorded[i]
			want.Digest, want.High = got.Digest, got.High // which are decklog's own business
			if differs := cmp.Diff(want, got); differs != "" {
				t.Fatalf("seed %d: it is read otherwise than it was recorded:\n%s", seed, differs)
			}
			sequence, _ := types.ToString(e.Extensions()["sequence"])
			if ids[e.Source()+e.ID()] || sequence <= before {
				t.Fatalf("seed %d: event %s comes twice, or out of order", seed, e.ID())
			}
			ids[e.Source()+e.ID()], before = true, sequence
			if err := projections.Project(again, []events.Recorded{got}); err != nil {
				t.Fatal(err)
			}
		}
		var folded []string
		if err := again.Scan("", "", false, func(k string, v []byte) bool { folded = append(folded, k+" "+string(v)); return true }); err != nil {
			t.Fatal(err)
		}
		if live := h.rows(); !slices.Equal(live, folded) {
			t.Fatalf("seed %d: the views of the exported events are not those of the ledger", seed)
		}
		// A batch is an array of the same.
		var batch []event.Event
		if err := json.Unmarshal(append(append([]byte("["), bytes.Join(lines, []byte(","))...), ']'), &batch); err != nil || len(batch) != len(lines) {
			t.Fatalf("seed %d: a batch of %d: %v", seed, len(batch), err)
		}
		// From any position on, every line is what it was.
		from := 1 + int(seed)%len(lines)
		to := from + (len(lines)-from)/2
		part := h.exported(ops.ExportRequest{From: strconv.Itoa(from), To: strconv.Itoa(to)})
		if !slices.EqualFunc(part, lines[from-1:to], bytes.Equal) {
			t.Fatalf("seed %d: the events from %d to %d are others by themselves", seed, from, to)
		}
	}
}

func TestATextLeavesTheLedgerOnlyWhenItIsAskedFor(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	hostile := "say \"<b>\"\\ }{ \u202e\U0001f6a2 and\ttab\nline"
	kept := d.send(alice, request(bob, hostile))
	gone := d.send(alice, inform(bob, "a slip of the tongue"))
	if _, r, err := d.Delete(ops.DeleteRequest{Asker: ops.Asker{As: alice}, Message: string(gone.ID)}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	for _, line := range d.exported(ops.ExportRequest{}) {
		if bytes.Contains(line, []byte("body_text")) || bytes.Contains(line, []byte("body_redacted")) || bytes.Contains(line, []byte("tongue")) || bytes.Contains(line, []byte("U0001f6a2")) {
			t.Fatalf("a text is in %s", line)
		}
	}
	found := 0
	for i, line := range d.exported(ops.ExportRequest{Bodies: true}) {
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Validate() != nil {
			t.Fatalf("%v %v\n%s", err, e.Validate(), line)
		}
		var data map[string]any
		if err := json.Unmarshal(e.Data(), &data); err != nil {
			t.Fatal(err)
		}
		text, there := data["body_text"]
		_, redacted := data["body_redacted"]
		switch data["message"] {
		case string(kept.ID):
			if found++; text != hostile || redacted {
				t.Errorf("the text is %q", text)
			}
			// The rest of the data is still what was recorded.
			original := d.recorded(0)[i]
			if !bytes.HasPrefix(e.Data(), bytes.TrimSuffix(original.Data, []byte("}"))) {
				t.Errorf("%s is not %s with a text", e.Data(), original.Data)
			}
		case string(gone.ID):
			if _, sent := d.recorded(0)[i].Event.(events.MessageSent); sent {
				if found++; there || !redacted {
					t.Errorf("what was taken back is shown as %s", e.Data())
				}
			}
		default:
			if there || redacted {
				t.Errorf("%s has a text", line)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 messages were found", found)
	}
}

func TestAnExportThatIsLongerThanItHoldsIsWhole(t *testing.T) {
	d := newDesk(t)
	d.policy.Limits.SessionRate, d.policy.Limits.DeviceRate, d.policy.Limits.PersonRate, d.policy.Limits.RecipientFull = 0, 0, 0, 0
	d.ready(alice, bob)
	for i := range 2*ops.BodiesMax + 7 {
		d.send(alice, inform(bob, fmt.Sprint("message ", i)))
	}
	texts := 0
	for _, line := range d.exported(ops.ExportRequest{Bodies: true}) {
		if bytes.Contains(line, fmt.Appendf(nil, `"body_text":"message %d"`, texts)) {
			texts++
		}
	}
	if texts != 2*ops.BodiesMax+7 {
		t.Errorf("%d texts", texts)
	}
}

func TestAnExportOfWhatIsNotThereIsRefused(t *testing.T) {
	d := newDesk(t)
	if lines := d.exported(ops.ExportRequest{}); len(lines) != 0 {
		t.Errorf("an empty ledger has %q", lines)
	}
	d.join(alice)
	none := func(ops.Exported) error { return nil }
	r, err := ops.Export(d.Ops, ops.ExportRequest{From: "99"}, none)
	d.told(commands.BadRequest, r, err)
	r, err = ops.Export(d.Ops, ops.ExportRequest{To: "tomorrow"}, none)
	d.told(commands.BadRequest, r, err)
	_, r, err = d.Bodies(ops.BodiesRequest{Events: make([]events.EventID, ops.BodiesMax+1)})
	d.told(commands.BadRequest, r, err)
}
