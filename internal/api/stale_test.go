package api

import (
	"reflect"
	"strings"
	"testing"
)

// An answer says that it is stale in a field beside its own, and who reads it may take
// a field in other letters for the same: so none may be called so.
func TestNoAnswerHasAFieldOfItsOwnThatIsCalledStale(t *testing.T) {
	for _, r := range Routes() {
		if !r.Shows() || r.Out.Kind() != reflect.Struct {
			continue
		}
		eachField(r.Out, func(name string, _ reflect.StructField) {
			if strings.EqualFold(name, "stale") {
				t.Errorf("%s answers with a field %s of its own", r.Name, name)
			}
		})
	}
}
