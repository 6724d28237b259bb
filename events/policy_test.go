package events_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decklog/events"
)

func TestTheDefaultBoundsAreThoseOfTheDesign(t *testing.T) {
	want := events.Limits{
		BodyBytes: 4000, Refs: 10, SessionRate: 30, DeviceRate: 120, PersonRate: 300, ThreadRate: 8, RecipientFull: 50,
		DuplicateWindow: span(10 * time.Minute), ExpiresAfter: span(24 * time.Hour), Lease: span(10 * time.Second), LeaseAttempts: 3,
		WaitFinal: span(180 * time.Second), OwnerWindow: span(12 * time.Second), Hops: 3, ReviewWithin: span(30 * time.Minute),
		OwedAfter: span(30 * time.Minute), ResumeWithin: span(10 * time.Minute), AbsentAfter: span(30 * time.Minute),
	}
	if got := events.DefaultPolicy(); !reflect.DeepEqual(got, events.Policy{Limits: want}) {
		t.Errorf("the default policy is %+v", got)
	}
}

func span(d time.Duration) events.Span { return events.Span(d) }

func TestAPolicyReadsBackFromItsEventAsItWas(t *testing.T) {
	name := rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`)
	length := rapid.Custom(func(t *rapid.T) events.Span { return events.Span(rapid.Int64Range(0, 1<<60).Draw(t, "span")) })
	policy := rapid.Custom(func(t *rapid.T) (p events.Policy) {
		limits := reflect.ValueOf(&p.Limits).Elem()
		for i := range limits.NumField() {
			switch f := limits.Field(i); f.Interface().(type) {
			case int:
				f.SetInt(int64(rapid.IntRange(0, 1<<30).Draw(t, "count")))
			case events.Span:
				f.Set(reflect.ValueOf(length.Draw(t, "length")))
			default:
				t.Fatalf("the limit %s is neither a count nor a span", limits.Type().Field(i).Name)
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "seats") {
			p.Seats = append(p.Seats, events.Seat{Name: name.Draw(t, "seat"), Fallback: name.Draw(t, "fallback")})
			p.Persons = append(p.Persons, events.Person{Name: name.Draw(t, "person"), OSUser: name.Draw(t, "user"), Roles: []string{"owner"}})
			p.Areas = append(p.Areas, events.Area{Seat: name.Draw(t, "seat"), Priority: rapid.Int().Draw(t, "priority"), Match: []string{rapid.String().Draw(t, "match")}})
			p.Alerts = append(p.Alerts, events.Alert{Channel: rapid.String().Draw(t, "channel"), Triager: name.Draw(t, "triager")})
			p.Routing = &events.Routing{Timeout: length.Draw(t, "timeout")}
			p.Sessions.Ignore = append(p.Sessions.Ignore, rapid.String().Draw(t, "directory"))
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		want := policy.Draw(t, "policy")
		data, version, err := events.Encode(events.PolicyAdopted{Policy: want})
		if err != nil {
			t.Fatal(err)
		}
		got, err := events.Decode(events.TypePolicyAdopted, version, data)
		if err != nil || !reflect.DeepEqual(got, events.PolicyAdopted{Policy: want}) {
			t.Fatalf("%s reads as %+v, %v", data, got, err)
		}
	})
}

// The least sample is the default policy, so that a changed default shows as
// what it is: another policy for everybody who has no file.
func TestTheDefaultPolicyIsTheFrozenOne(t *testing.T) {
	data, err := os.ReadFile("testdata/samples/policy.adopted.v1.least.json")
	if err != nil {
		t.Fatal(err)
	}
	var e events.PolicyAdopted
	if err := json.Unmarshal(data, &e); err != nil || !reflect.DeepEqual(e.Policy, events.DefaultPolicy()) {
		t.Errorf("the frozen one is %+v, %v", e.Policy, err)
	}
}
