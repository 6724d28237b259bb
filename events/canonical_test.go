package events

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// byReflection is what encoding/json makes of a text that the canonical reader
// may read too.
func byReflection(t Type, data []byte) (Event, error) {
	switch t {
	case TypeMessageSent:
		return decode[MessageSent](t, data)
	case TypeMessageEdited:
		return decode[MessageEdited](t, data)
	case TypeThreadDone:
		return decode[ThreadDone](t, data)
	case TypeMailboxLeased:
		return decode[MailboxLeased](t, data)
	case TypeMailboxConfirmed:
		return decode[MailboxConfirmed](t, data)
	}
	return nil, nil
}

// agrees says whether the canonical reader leaves a text alone, or reads what
// encoding/json does.
func agrees(t Type, data []byte) bool {
	e, read := decodeCanonical(t, data)
	if !read {
		return true
	}
	want, err := byReflection(t, data)
	return err == nil && reflect.DeepEqual(e, want)
}

// frozen are the samples of the types that the canonical reader knows.
func frozen(t testing.TB) map[string][]byte {
	found := map[string][]byte{}
	for _, kind := range Types() {
		if want, _ := byReflection(kind, []byte("{}")); want == nil {
			continue
		}
		files, err := filepath.Glob("testdata/samples/" + string(kind) + ".v1*.json")
		if err != nil || len(files) == 0 {
			t.Fatalf("no samples of %s: %v", kind, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found[filepath.Base(f)] = bytes.TrimSpace(data)
		}
	}
	return found
}

func kindOf(file string) Type {
	kind, _, _ := strings.Cut(file, ".v1")
	return Type(kind)
}

func TestTheCanonicalReaderReadsEverySampleOfItsTypes(t *testing.T) {
	for file, data := range frozen(t) {
		e, read := decodeCanonical(kindOf(file), data)
		if want, err := byReflection(kindOf(file), data); !read || err != nil || !reflect.DeepEqual(e, want) {
			t.Errorf("%s: read %t as %+v, want %+v, %v", file, read, e, want, err)
		}
	}
}

func TestOneChangedByteIsReadAsEncodingJSONReadsIt(t *testing.T) {
	for file, data := range frozen(t) {
		kind := kindOf(file)
		for i := range data {
			for _, b := range []byte("\x00\x1f \"\\/{}[],:-+.0129aTZz\x7f\x80\xff") {
				changed := bytes.Clone(data)
				changed[i] = b
				if !agrees(kind, changed) {
					t.Fatalf("%s: %s", file, changed)
				}
				if inserted := append(append(bytes.Clone(data[:i]), b), data[i:]...); !agrees(kind, inserted) {
					t.Fatalf("%s: %s", file, inserted)
				}
			}
			for length := 1; length < 40 && i+length <= len(data); length++ {
				if cut := append(bytes.Clone(data[:i]), data[i+length:]...); !agrees(kind, cut) {
					t.Fatalf("%s: %s", file, cut)
				}
			}
			if !agrees(kind, data[:i]) {
				t.Fatalf("%s: %s", file, data[:i])
			}
		}
	}
}

// What is not as Encode writes it is for encoding/json to read or to refuse.
func TestTheCanonicalReaderLeavesAloneWhatEncodeDoesNotWrite(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `null`, `[]`,
		` {"thread":"t","message":"m","by":"s"}`,
		`{"thread":"t","message":"m","by":"s"} `,
		`{"message":"m","thread":"t","by":"s"}`,
		`{"thread":"t","message":"m"}`,
		`{"thread":"t","message":"m","by":null}`,
		`{"thread":"t","message":"m","by":"s","by":"x"}`,
		`{"thread":"t","message":"m","by":"s","newer":1}`,
		`{"Thread":"t","message":"m","by":"s"}`,
		`{"thread":"t","message":"m","by":"\u0073"}`,
		"{\"thread\":\"t\",\"message\":\"m\",\"by\":\"\xc3\"}",
		"{\"thread\":\"t\",\"message\":\"m\",\"by\":\"\n\"}",
	} {
		if e, read := decodeCanonical(TypeThreadDone, []byte(text)); read {
			t.Errorf("%q was read as %+v", text, e)
		}
	}
}

func TestWhatEncodeWritesIsReadAsItWas(t *testing.T) {
	texts := rapid.OneOf(rapid.SampledFrom([]string{"", "s1", "@ana", "é", "a \"b\" <c>", "\u2028", "\xff", "line\nfeed"}), rapid.String())
	moments := rapid.Map(rapid.Int64Range(int64(timeMin), int64(timeMax)), func(n int64) Time { return Time(n) })
	some := func(t *rapid.T, label string) *Time { return rapid.Ptr(moments, true).Draw(t, label) }
	items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Leased {
		return Leased{
			Kind: ItemKind(texts.Draw(t, "kind")), Message: MessageID(texts.Draw(t, "message")), Thread: ThreadID(texts.Draw(t, "thread")),
			Attempt: rapid.Int().Draw(t, "attempt"), Pending: rapid.Bool().Draw(t, "pending"), Edited: rapid.Bool().Draw(t, "edited"),
			Reason: LostReason(texts.Draw(t, "reason")), To: Participant(texts.Draw(t, "to")),
		}
	}), 0, 3)
	masked := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Masked {
		return Masked{Kind: texts.Draw(t, "kind"), Count: rapid.IntRange(-20, 20).Draw(t, "count")}
	}), 0, 2)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) string { return texts.Draw(t, label) }
		var e Event
		switch rapid.IntRange(0, 4).Draw(t, "type") {
		case 0:
			e = MessageSent{
				Message: MessageID(draw("message")), Thread: ThreadID(draw("thread")), Kind: MessageKind(draw("kind")),
				Author: Author{
					ID: Participant(draw("author")), Kind: ParticipantKind(draw("what")), Harness: draw("harness"), Seat: draw("seat"),
					Person: draw("person"), Repo: draw("repo"), Branch: draw("branch"), Device: draw("device"),
				},
				To: Recipient{ID: Participant(draw("to")), Kind: ParticipantKind(draw("to kind"))}, Addressed: draw("addressed"),
				ReplyTo: MessageID(draw("reply to")), Intent: Intent(draw("intent")), Turn: Turn(draw("turn")),
				Body: BodyRef{Commitment: draw("commitment"), Bytes: rapid.IntRange(-1, 4000).Draw(t, "bytes")},
				Refs: rapid.SliceOfN(texts, 0, 3).Draw(t, "refs"), Expires: moments.Draw(t, "expires"), Due: some(t, "due"), FinalBy: some(t, "final by"),
				Deliveries: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Delivery {
					return Delivery{To: Participant(texts.Draw(t, "to")), State: DeliveryState(texts.Draw(t, "state"))}
				}), 0, 3).Draw(t, "deliveries"),
				Evidence: Evidence{
					Live: rapid.Bool().Draw(t, "live"), Busy: rapid.Bool().Draw(t, "busy"), Session: SessionID(draw("session")), Says: draw("says"),
					AgeMS: rapid.Ptr(rapid.Int64(), true).Draw(t, "age"),
				},
				Arrives: Arrival(draw("arrives")), Masked: masked.Draw(t, "masked"), ResendOf: MessageID(draw("resend of")), Key: draw("key"),
			}
		case 1:
			e = MessageEdited{Message: MessageID(draw("message")), Thread: ThreadID(draw("thread")), Body: BodyRef{Commitment: draw("commitment")}, Masked: masked.Draw(t, "masked")}
		case 2:
			e = ThreadDone{Thread: ThreadID(draw("thread")), Message: MessageID(draw("message")), By: Participant(draw("by"))}
		case 3:
			e = MailboxLeased{
				Lease: LeaseID(draw("lease")), Mailbox: Participant(draw("mailbox")), Harness: draw("harness"), Hook: draw("hook"),
				Until: moments.Draw(t, "until"), Items: items.Draw(t, "items"),
			}
		case 4:
			e = MailboxConfirmed{Lease: LeaseID(draw("lease")), Mailbox: Participant(draw("mailbox")), Items: items.Draw(t, "items"), Late: rapid.Bool().Draw(t, "late")}
		}
		data, _, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if !agrees(e.EventType(), data) {
			t.Fatalf("%s", data)
		}
		// Nearly always it is read fast: only an escape or a long number is in the way.
		var plain any
		if json.Unmarshal(data, &plain); !bytes.ContainsRune(data, '\\') && !bytes.Contains(data, []byte("null")) && !longNumber(data) {
			if _, read := decodeCanonical(e.EventType(), data); !read {
				t.Fatalf("left alone: %s", data)
			}
		}
	})
}

func longNumber(data []byte) bool {
	digits := 0
	for _, b := range data {
		if digits++; b < '0' || b > '9' {
			digits = 0
		}
		if digits > 9 {
			return true
		}
	}
	return false
}

// FuzzTheCanonicalReaderAgreesWithEncodingJSON feeds any bytes.
func FuzzTheCanonicalReaderAgreesWithEncodingJSON(f *testing.F) {
	for file, data := range frozen(f) {
		f.Add(string(kindOf(file)), data)
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		if !agrees(Type(kind), data) {
			t.Fatalf("%s: %q", kind, data)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for file, data := range frozen(b) {
		kind := kindOf(file)
		b.Run(file, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(kind, SchemaVersion, data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(file+"/reflection", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := byReflection(kind, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
