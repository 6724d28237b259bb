package events_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"decklog/events"
)

// sample is a stored event as it must read and write for ever.
type sample struct {
	file string
	kind events.Type
	data []byte
	full bool // with the others of its type that are, it fills every field
}

// samples reads the frozen ones. A name is TYPE.v1.json, TYPE.v1.WORD.json where
// no single event has all that a type can hold, or TYPE.v1.least.json for one
// that leaves out whatever may be left out.
func samples(t testing.TB) (all []sample) {
	t.Helper()
	files, err := filepath.Glob("testdata/samples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		kind, word, found := strings.Cut(strings.TrimSuffix(name, ".json"), ".v1")
		if !found || word != "" && !wordOfSample.MatchString(word) {
			t.Fatalf("%s is named after no type and version", name)
		}
		data, found = bytes.CutSuffix(data, []byte("\n"))
		if !found {
			t.Fatalf("%s does not end with a line feed", name)
		}
		all = append(all, sample{file: name, kind: events.Type(kind), data: data, full: word != ".least"})
	}
	return all
}

var wordOfSample = regexp.MustCompile(`^\.[a-z]+$`)

func TestEveryTypeHasAFrozenSampleThatDecodesAndEncodesByteForByte(t *testing.T) {
	seen := map[events.Type]bool{}
	for _, s := range samples(t) {
		e, err := events.Decode(s.kind, events.SchemaVersion, s.data)
		if err != nil {
			t.Errorf("%s: %v", s.file, err)
			continue
		}
		if _, unknown := e.(events.Unknown); unknown || e.EventType() != s.kind {
			t.Errorf("%s decodes as %T of type %s", s.file, e, e.EventType())
			continue
		}
		data, version, err := events.Encode(e)
		if err != nil || version != events.SchemaVersion || !bytes.Equal(data, s.data) {
			t.Errorf("%s encodes as version %d, %v\n%s\nwant\n%s", s.file, version, err, data, s.data)
		}
		if s.full {
			seen[s.kind] = true
		}
	}
	for _, kind := range events.Types() {
		if !seen[kind] {
			t.Errorf("%s has no sample", kind)
		}
		delete(seen, kind)
	}
	for kind := range seen {
		t.Errorf("%s has a sample and is not among the types", kind)
	}
}

func TestTheFullSamplesOfATypeLeaveNoneOfItsFieldsEmpty(t *testing.T) {
	left := map[events.Type][]string{}
	for _, s := range samples(t) {
		if !s.full {
			continue
		}
		e, err := events.Decode(s.kind, events.SchemaVersion, s.data)
		if err != nil {
			t.Fatal(err)
		}
		paths := empty(reflect.ValueOf(e), string(s.kind))
		if others, known := left[s.kind]; known {
			paths = emptyInBoth(others, paths)
		}
		left[s.kind] = paths
	}
	for _, kind := range events.Types() {
		for _, path := range left[kind] {
			t.Errorf("no sample fills %s", path)
		}
	}
}

// empty lists the fields that hold nothing; of a list, those that none of its
// elements fills.
func empty(v reflect.Value, path string) (paths []string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			paths = append(paths, empty(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
		return paths
	case reflect.Pointer:
		if !v.IsNil() {
			return empty(v.Elem(), path)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			paths = empty(v.Index(0), path)
			for i := 1; i < v.Len(); i++ {
				paths = emptyInBoth(paths, empty(v.Index(i), path))
			}
			return paths
		}
	}
	if v.IsZero() {
		return []string{path}
	}
	return nil
}

// emptyInBoth lists what neither of two values fills. What is empty as a whole
// in one of them is empty there in each of its fields.
func emptyInBoth(a, b []string) (both []string) {
	for _, p := range a {
		for _, q := range b {
			switch {
			case p == q || strings.HasPrefix(p, q+"."):
				both = append(both, p)
			case strings.HasPrefix(q, p+"."):
				both = append(both, q)
			}
		}
	}
	return both
}

func TestWhatOneSampleLeavesOutAnotherMustFillFieldByField(t *testing.T) {
	for _, c := range []struct {
		what       string
		a, b, both []string
	}{
		{"nothing is empty", nil, nil, nil},
		{"the other fills it", []string{"t.A"}, []string{"t.B"}, nil},
		{"neither fills it", []string{"t.A", "t.B"}, []string{"t.B", "t.C"}, []string{"t.B"}},
		{"one leaves out the whole, the other a field of it", []string{"t.A"}, []string{"t.A.X"}, []string{"t.A.X"}},
		{"the same the other way round", []string{"t.A.X"}, []string{"t.A"}, []string{"t.A.X"}},
		{"a name that begins alike is another", []string{"t.A"}, []string{"t.AB"}, nil},
	} {
		if got := emptyInBoth(c.a, c.b); !slices.Equal(got, c.both) {
			t.Errorf("%s: %v, want %v", c.what, got, c.both)
		}
	}
}

func TestATypeOrVersionThatIsNotKnownIsKeptAsItIs(t *testing.T) {
	data := []byte("{\"z\" : 1,\t\"a\": [1.50, \"\\u00e9\"]}")
	for _, c := range []struct {
		kind    events.Type
		version int
	}{
		{"sticker.polished", 1}, {"", 1}, {"message.sent", 2}, {"message.sent", 0}, {"message.sent", -1}, {"Message.Sent", 1},
	} {
		e, err := events.Decode(c.kind, c.version, data)
		u, is := e.(events.Unknown)
		if err != nil || !is || u.Type != c.kind || u.EventType() != c.kind || u.Version != c.version || !bytes.Equal(u.Data, data) {
			t.Errorf("%q version %d decodes as %#v, %v", c.kind, c.version, e, err)
			continue
		}
		again, version, err := events.Encode(u)
		if err != nil || version != c.version || !bytes.Equal(again, data) {
			t.Errorf("%q version %d encodes as version %d %s, %v", c.kind, c.version, version, again, err)
		}
		if threads := events.ThreadsOf(u); threads != nil {
			t.Errorf("an unknown event names the threads %v", threads)
		}
	}
}

func TestAFieldOfANewerProgramDoesNotHinderAnOlderOne(t *testing.T) {
	for _, s := range samples(t) {
		e, err := events.Decode(s.kind, events.SchemaVersion, s.data)
		if err != nil {
			t.Fatal(err)
		}
		newer := append([]byte(`{"a_newer_field":{"deep":[1,null,"x"]},`), s.data[1:]...)
		got, err := events.Decode(s.kind, events.SchemaVersion, newer)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s with a field more decodes as %+v, %v", s.file, got, err)
		}
	}
}

func TestDamagedDataDecodesAsUnknownAndSaysSo(t *testing.T) {
	for _, kind := range events.Types() {
		for _, data := range []string{"", "{", "null", "[]", `"text"`, "7", "true", "{}{}", "{\"message\":", "\x00\xff", `{"items":7,"policy":7,"session":7,"message":7,"thread":7,"seat":7,"lease":7,"command":7}`} {
			e, err := events.Decode(kind, events.SchemaVersion, []byte(data))
			u, is := e.(events.Unknown)
			if !errors.Is(err, events.ErrDamaged) || !is || u.Type != kind || u.Version != events.SchemaVersion || string(u.Data) != data {
				t.Errorf("%s: %q decodes as %#v, %v", kind, data, e, err)
			}
		}
	}
}

// named says which thread an event of each type names; empty: none.
var named = map[events.Type]string{
	events.TypeSessionJoined: "", events.TypeSessionLeft: "", events.TypeSeatTaken: "", events.TypeSeatLeft: "",
	events.TypeMessageSent: "thread", events.TypeMessageEdited: "thread", events.TypeMessageDeleted: "thread", events.TypeMessageExpired: "thread",
	events.TypeMessageUndelivered: "thread", events.TypeMessageRead: "thread", events.TypeTurnFlipped: "thread", events.TypeThreadDone: "thread", events.TypeCommandRefused: "thread",
	events.TypeMailboxLeased: "thread", events.TypeMailboxConfirmed: "thread", events.TypeMailboxTaken: "thread", events.TypeMailboxReturned: "thread",
	events.TypeLeaseExpired: "thread", events.TypeInstructionLeased: "", events.TypeInstructionConfirmed: "", events.TypePolicyAdopted: "",
	events.TypePayloadAttached: "thread", events.TypeAckPlaced: "thread", events.TypeStickerPlaced: "thread", events.TypeStickerRemoved: "thread",
	events.TypeHandoffOffered: "thread", events.TypeHandoffAccepted: "thread", events.TypeHandoffDeclined: "thread", events.TypeHandoffClosed: "thread",
	events.TypeRoutingJudged: "thread", events.TypeRoutingUndone: "thread", events.TypeOwedPassed: "thread", events.TypeOwedClosed: "thread",
	events.TypeOwedNudged: "thread", events.TypeOwedPaged: "thread", events.TypeReviewAsked: "thread", events.TypeReviewLabelled: "thread",
	events.TypeReviewTimedOut: "thread", events.TypeCardPosted: "thread", events.TypeCardUpdated: "thread", events.TypeDriverMoved: "thread",
	events.TypeSeatAbsent: "", events.TypeSeatReturned: "",
}

func TestEveryTypeSaysWhichThreadItIsAbout(t *testing.T) {
	const thread = "e2f47a19-6b8d-5c30-b1f5-94d7a0c3628e" // of all the samples
	for _, kind := range events.Types() {
		if _, listed := named[kind]; !listed {
			t.Errorf("this test does not say whether %s names a thread", kind)
		}
	}
	for _, s := range samples(t) {
		if !s.full {
			continue
		}
		e, err := events.Decode(s.kind, events.SchemaVersion, s.data)
		if err != nil {
			t.Fatal(err)
		}
		var want []events.ThreadID
		if named[s.kind] != "" {
			want = []events.ThreadID{thread}
			if !bytes.Contains(s.data, []byte(`"thread":"`+thread)) {
				t.Errorf("%s does not hold the thread", s.file)
			}
		} else if bytes.Contains(s.data, []byte(thread)) {
			t.Errorf("%s holds a thread, and is said to name none", s.file)
		}
		if got := events.ThreadsOf(e); !slices.Equal(got, want) {
			t.Errorf("%s names the threads %v, want %v", s.kind, got, want)
		}
	}
}

func TestAnEventOfSeveralThreadsNamesEachOnceInItsOrder(t *testing.T) {
	items := []events.Leased{{Thread: "b"}, {Thread: "a"}, {Thread: "b"}, {Thread: "c"}, {Thread: "a"}}
	e := events.MailboxLeased{Items: items}
	if got := events.ThreadsOf(e); !slices.Equal(got, []events.ThreadID{"b", "a", "c"}) {
		t.Errorf("the threads are %v", got)
	}
	if one := events.ThreadOf(e); one != "" {
		t.Errorf("an event of three threads is about %s", one)
	}
	if one := events.ThreadOf(events.MailboxLeased{Items: items[:1]}); one != "b" {
		t.Errorf("an event of one thread is about %q", one)
	}
	if got := events.ThreadsOf(events.CommandRefused{Command: "send"}); got != nil {
		t.Errorf("a refusal about no thread names %v", got)
	}
}

func TestNothingIsEscapedThatJSONDoesNotDemand(t *testing.T) {
	data, _, err := events.Encode(events.SessionJoined{Session: "s", Source: events.SourceManual, Title: "a <b> & \"c\" \u00e9 \U0001f469", Device: "d"})
	want := `{"session":"s","source":"manual","title":"a <b> & \"c\" ` + "\u00e9 \U0001f469" + `","device":"d"}`
	if err != nil || string(data) != want {
		t.Errorf("encoded %s, %v, want %s", data, err, want)
	}
}

// FuzzDecodeNeverFailsToKeep feeds any bytes under any type and version: what
// cannot be read is kept as it is, what can be read encodes to something that
// reads the same, and nothing panics.
func FuzzDecodeNeverFailsToKeep(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(string(s.kind), 1, s.data)
	}
	f.Add("sticker.polished", 1, []byte("{}"))
	f.Add("message.sent", 7, []byte("\x00"))
	f.Add("mailbox.leased", 1, []byte(`{"until":"2026-11-30T09:00:00+14:00","items":[{},null]}`))
	f.Fuzz(func(t *testing.T, kind string, version int, data []byte) {
		before := bytes.Clone(data)
		e, err := events.Decode(events.Type(kind), version, data)
		if e == nil {
			t.Fatalf("decoded as nothing: %v", err)
		}
		if !bytes.Equal(before, data) {
			t.Fatal("decoding changed the stored bytes")
		}
		events.ThreadsOf(e)
		if string(e.EventType()) != kind {
			t.Fatalf("the type became %q", e.EventType())
		}
		if u, is := e.(events.Unknown); is {
			if !bytes.Equal(u.Data, before) || u.Version != version {
				t.Fatalf("kept as %+v", u)
			}
			if err != nil && !errors.Is(err, events.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if err != nil {
			t.Fatalf("decoded as %T, with %v", e, err)
		}
		once, _, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := events.Decode(events.Type(kind), version, once)
		if err != nil {
			t.Fatalf("what was encoded, %s, does not decode: %v", once, err)
		}
		twice, _, err := events.Encode(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("encoded first as\n%s\nthen as\n%s\n%v", once, twice, err)
		}
	})
}
