package api

import (
	"encoding/json"
	"fmt"
	"reflect"

	"decklog/events"
)

// AtLeast is a field of every request that only reads: the position that its answer
// must see. The server waits for it, [ops.ReachMax] at most. It is the door's own, and
// no operation is given it.
const AtLeast = "at_least"

// StaleHeader is in an answer that does not see what it must, as true. One that is a
// document has it as its field stale besides.
const StaleHeader = "Decklog-Stale"

// Reads says whether a route only looks.
func (r *Route) Reads() bool { return r.Access == Read }

// Shows says whether an answer of a route is a view, which may be stale.
func (r *Route) Shows() bool { return r.Reads() || r.Weighs }

// Names lists the fields of a request in their order.
func (r *Route) Names() []string {
	names := Names(r.In)
	if r.Reads() {
		names = append(names, AtLeast)
	}
	return names
}

// fields are those of a request, with what each is in JSON.
func (r *Route) fields() []shownField {
	fields := shown(r.In)
	if r.Reads() {
		fields = append(fields, shownField{AtLeast, reflect.TypeFor[events.Position](), true})
	}
	return fields
}

// Least takes the position that an answer must see out of a request; 0: any.
func (r *Route) Least(in json.RawMessage) (rest json.RawMessage, least events.Position, err error) {
	var fields map[string]json.RawMessage
	if !r.Reads() || json.Unmarshal(in, &fields) != nil || fields[AtLeast] == nil {
		return in, 0, nil // what is no object is said when it is read
	}
	if err := json.Unmarshal(fields[AtLeast], &least); err != nil || least < 0 {
		return nil, 0, BadRequest{fmt.Sprintf("%s is %s, which is no position", AtLeast, fields[AtLeast])}
	}
	delete(fields, AtLeast)
	rest, err = json.Marshal(fields)
	return rest, least, err
}
