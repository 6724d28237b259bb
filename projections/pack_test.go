package projections

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"decklog/events"
)

const packedID = "3c9e5f0a-52b1-5d84-9a63-0f1c7c2e8b11"

// packs checks that a row is read as it was written, by itself and from an
// attic, and that the same row is always the same bytes.
func packs[T any, R row[T]](t *rapid.T, whole R) {
	alone := bytes.Clone(pack(new(packer), packedID, whole))
	read, err := unpack[T, R](packedID, alone, nil)
	if err != nil || !reflect.DeepEqual(read, whole) {
		t.Fatalf("%+v\nwas read as\n%+v, %v", whole, read, err)
	}
	if again := pack(new(packer), packedID, read); !bytes.Equal(again, alone) {
		t.Fatalf("%+v\nis written as\n%x\nand then as\n%x", whole, alone, again)
	}
	a := newAttic()
	for range 2 { // the second time its texts are shared
		a.put(packedID, pack(&a.packer, packedID, whole))
		if read, err := unpack[T, R](packedID, a.get(packedID), a.packer.shared); err != nil || !reflect.DeepEqual(read, whole) {
			t.Fatalf("%+v\nwas read from an attic as\n%+v, %v", whole, read, err)
		}
	}
	// What is cut off is not whole, and nothing that is changed brings it down.
	cut := rapid.IntRange(0, len(alone)-1).Draw(t, "cut")
	if read, err := unpack[T, R](packedID, alone[:cut], nil); err == nil {
		t.Fatalf("the first %d bytes of %x were read as %+v", cut, alone, read)
	}
	if _, err := unpack[T, R](packedID, append(alone, 0), nil); err == nil {
		t.Fatalf("%x and a byte more was read", alone)
	}
	alone[cut] = rapid.Byte().Draw(t, "another byte")
	_, _ = unpack[T, R](packedID, alone, nil)
}

func TestEveryRowIsReadAsItWasWritten(t *testing.T) {
	texts := rapid.OneOf(
		rapid.SampledFrom([]string{"", packedID, "e2f47a19-6b8d-5c30-b1f5-94d7a0c3628e", "E2F47A19-6B8D-5C30-B1F5-94D7A0C3628E", "@ana", "queued", "claude-code", "\xff\x00"}),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		filled := func(v any) { fill(t, texts, reflect.ValueOf(v).Elem()) }
		message := new(Message)
		if filled(message); len(message.Bodies) == 0 {
			message.Bodies = []events.EventID{"e"}
		}
		packs(t, message)
		thread := new(Thread)
		filled(thread)
		packs(t, thread)
		mailbox := new(Mailbox)
		filled(mailbox)
		packs(t, mailbox)
		lease := new(Lease)
		filled(lease)
		packs(t, lease)
		session := new(Session)
		filled(session)
		packs(t, session)
		seat := new(Seat)
		filled(seat)
		packs(t, seat)
		counts := new(Counts)
		filled(counts)
		packs(t, counts)
		adopted := &Adopted{Position: 7, Time: 8, Policy: events.DefaultPolicy()}
		packs(t, adopted)
	})
}

// fill draws every field, so that one which a pack method forgets is missed. A
// list of nothing is read as none, and so it is drawn.
func fill(t *rapid.T, texts *rapid.Generator[string], v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, texts, v.Field(i))
		}
	case reflect.String:
		v.SetString(texts.Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "number"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, texts, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "many"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, texts, v.Index(i))
			}
		}
	default:
		t.Fatalf("a row has a field of kind %s", v.Kind())
	}
}

func TestAnAtticVisitsItsRowsInTheOrderOfTheirIDs(t *testing.T) {
	ids := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) string { return events.UUID([16]byte(b)) }))
	rapid.Check(t, func(t *rapid.T) {
		a, want := newAttic(), map[string]string{}
		for range rapid.IntRange(0, 20).Draw(t, "many") {
			id, row := ids.Draw(t, "id"), rapid.String().Draw(t, "row")
			a.put(id, []byte(row))
			want[id] = row
		}
		var visited []string
		for id, row := range a.all() {
			visited = append(visited, id)
			if string(row) != want[id] || string(a.get(id)) != want[id] {
				t.Fatalf("%q has the row %q", id, row)
			}
		}
		if len(visited) != len(want) || !slices.IsSorted(visited) {
			t.Fatalf("visited %q of %q", visited, want)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{}, byte(0))
	f.Add(pack(new(packer), packedID, &Message{Bodies: []events.EventID{"e"}, Deliveries: []Delivery{{To: "@ana"}}}), byte(0))
	f.Add(pack(new(packer), packedID, &Lease{Items: []events.Leased{{Message: "m"}}}), byte(1))
	f.Add(pack(new(packer), packedID, &Session{Process: &events.Process{PID: 1}}), byte(2))
	f.Add(pack(new(packer), packedID, &Adopted{Policy: events.DefaultPolicy()}), byte(3))
	f.Add(pack(new(packer), packedID, &Thread{Participants: []events.Participant{"@ana"}}), byte(4))
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		switch kind % 5 {
		case 0:
			_, _ = unpack[Message](packedID, data, nil)
		case 1:
			_, _ = unpack[Lease](packedID, data, nil)
		case 2:
			_, _ = unpack[Session](packedID, data, nil)
		case 3:
			_, _ = unpack[Adopted](packedID, data, nil)
		case 4:
			_, _ = unpack[Thread](packedID, data, nil)
		}
	})
}
