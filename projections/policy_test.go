package projections_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"decklog/events"
	"decklog/internal/rows"
	"decklog/projections"
)

// fill gives every field, also one that is added some day, a value of its own.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(string(rune(1000 + *n)))
	default:
		v.SetInt(*n)
	}
}

func TestThePolicyInForceIsTheOneThatWasAdoptedFieldByField(t *testing.T) {
	var full events.Policy
	fill(reflect.ValueOf(&full).Elem(), new(int64))
	empty := events.Policy{Areas: []events.Area{{Match: []string{}}, {}}}
	for _, adopted := range []events.Policy{full, empty, events.DefaultPolicy(), {}} {
		r := rows.New()
		if err := projections.Project(r, placed(events.PolicyAdopted{Policy: adopted})); err != nil {
			t.Fatal(err)
		}
		s := projections.On(r)
		if inForce := s.Policy(); s.Err() != nil || inForce == nil || !cmp.Equal(adopted, inForce.Policy) {
			t.Errorf("adopted %+v, in force is %+v: %v", adopted, inForce, s.Err())
		}
	}
}
