package events_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"decklog/events"
)

// The namespace is part of the format: another would give every event another id.
var namespace = uuid.MustParse("dec10600-6c6f-4762-8f6f-6b2e696e6b21")

func derived(parts ...string) string {
	return uuid.NewSHA1(namespace, []byte(strings.Join(parts, "\n"))).String()
}

func TestDerivedIDsAreTheVersion5UUIDsThatTheUUIDPackageMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := events.CommandID(rapid.String().Draw(t, "command"))
		n := rapid.IntRange(0, 1<<40).Draw(t, "n")
		sender, key := rapid.String().Draw(t, "sender"), rapid.String().Draw(t, "key")
		for _, id := range []struct{ got, want string }{
			{string(c.Event(n)), derived("event", string(c), strconv.Itoa(n))},
			{string(c.Refusal(events.Stream(key), events.Revision(n))), derived("refusal", string(c), key, strconv.Itoa(n))},
			{string(c.Message()), derived("message", string(c))},
			{string(c.Thread()), derived("thread", string(c))},
			{string(c.Lease()), derived("lease", string(c))},
			{string(events.KeyedCommand(events.Participant(sender), key)), derived("key", sender, key)},
			{string(events.FollowUp(sender, key)), derived("follow-up", sender, key)},
		} {
			if id.got != id.want {
				t.Fatalf("got %s, the uuid package has %s", id.got, id.want)
			}
			if u, err := uuid.Parse(id.got); err != nil || u.Version() != 5 || u.Variant() != uuid.RFC4122 || !events.IsUUID(id.got) {
				t.Fatalf("%s is version %s, variant %s, %v", id.got, u.Version(), u.Variant(), err)
			}
		}
	})
}

func TestDerivedIDsAreFrozen(t *testing.T) {
	c := events.CommandID("019b2f3c-7d10-7e44-b0aa-51c20f5d9e17")
	for _, id := range []struct{ what, got, want string }{
		{"event 0", string(c.Event(0)), "c2509ce0-dbd6-53d1-bb18-6c08c9f80450"},
		{"message", string(c.Message()), "bad15e5f-6f68-5d7a-ae8e-754478703c4a"},
		{"thread", string(c.Thread()), "b7aee063-f8c1-58e8-953a-5a8166d59cf7"},
		{"lease", string(c.Lease()), "d9282ad8-ba69-5570-a3f4-0235bfda1ce1"},
		{"refusal 3", string(c.Refusal("session-s", 3)), "b2c4e0fc-dfe2-53c2-94dd-9771e6ec08de"},
		{"key", string(events.KeyedCommand("@ana", "k")), "f6dab4a1-5e18-53e1-b8ae-c9c49b4c5aa9"},
		{"follow-up", string(events.FollowUp("cause", "step")), "6ffb1f5b-f482-5539-8d17-ec7ad1ea3d64"},
	} {
		if id.got != id.want {
			t.Errorf("%s is %s, and was %s", id.what, id.got, id.want)
		}
	}
}

func TestIDsOfOneCommandDiffer(t *testing.T) {
	c := events.CommandID("c")
	seen := map[string]string{}
	for what, id := range map[string]string{
		"event 0": string(c.Event(0)), "event 1": string(c.Event(1)), "event 10": string(c.Event(10)), "refusal 0": string(c.Refusal("s", 0)),
		"refusal 1": string(c.Refusal("s", 1)), "refusal 0 of another stream": string(c.Refusal("t", 0)), "message": string(c.Message()), "thread": string(c.Thread()), "lease": string(c.Lease()),
		"another's event 0": string(events.CommandID("d").Event(0)), "the same key of a": string(events.KeyedCommand("a", "k")),
		"the same key of b": string(events.KeyedCommand("b", "k")), "another key of a": string(events.KeyedCommand("a", "l")),
		"a follow-up": string(events.FollowUp("a", "k")), "the next step": string(events.FollowUp("a", "l")),
	} {
		if other, double := seen[id]; double {
			t.Errorf("%s and %s are both %s", what, other, id)
		}
		seen[id] = what
	}
}

func TestACommandIDIsAVersion7UUIDThatSortsByItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Int64Range(0, time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()).Draw(t, "time")
		later := first + 1000 + rapid.Int64Range(0, 1e12).Draw(t, "later by")
		var a, b [10]byte
		copy(a[:], rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "random"))
		copy(b[:], rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "other random"))
		one, two := events.CommandAt(events.Time(first), a), events.CommandAt(events.Time(later), b)
		for _, c := range []struct {
			id events.CommandID
			at int64
		}{{one, first}, {two, later}} {
			u, err := uuid.Parse(string(c.id))
			if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 || u.String() != string(c.id) || !events.IsUUID(string(c.id)) {
				t.Fatalf("%s is version %s, variant %s, %v", c.id, u.Version(), u.Variant(), err)
			}
			// A version 7 keeps the milliseconds in its first 48 bits.
			ms := int64(0)
			for _, x := range u[:6] {
				ms = ms<<8 | int64(x)
			}
			if ms != c.at/1000 {
				t.Fatalf("%s is of millisecond %d, want %d", c.id, ms, c.at/1000)
			}
		}
		if one >= two {
			t.Fatalf("%s at %d does not sort before %s at %d", one, first, two, later)
		}
		if a != b && events.CommandAt(events.Time(first), b) == one && differBesidesFixedBits(a, b) {
			t.Fatalf("two commands of one moment are both %s", one)
		}
	})
}

// differBesidesFixedBits leaves out the six bits that a UUID's version and
// variant take.
func differBesidesFixedBits(a, b [10]byte) bool {
	a[0], b[0] = a[0]&0x0f, b[0]&0x0f
	a[2], b[2] = a[2]&0x3f, b[2]&0x3f
	return a != b
}

func TestOnlyTheUsualFormOfAUUIDIsOne(t *testing.T) {
	good := "019b2f3c-7d10-7e44-b0aa-51c20f5d9e17"
	if !events.IsUUID(good) {
		t.Errorf("%s is none", good)
	}
	for _, bad := range []string{
		"", good[:35], good + "0", strings.ToUpper(good), "{" + good + "}", strings.ReplaceAll(good, "-", ""),
		"019b2f3c+7d10-7e44-b0aa-51c20f5d9e17", "019b2f3cg7d10-7e44-b0aa-51c20f5d9e1-", "g19b2f3c-7d10-7e44-b0aa-51c20f5d9e17", " 19b2f3c-7d10-7e44-b0aa-51c20f5d9e17",
	} {
		if events.IsUUID(bad) {
			t.Errorf("%q is one", bad)
		}
	}
}
