package ops

import (
	"encoding/json"

	"decklog/events"
)

// EventShown is an event as every door shows it.
type EventShown struct {
	Position events.Position    `json:"position"`
	Stream   events.Stream      `json:"stream"`
	Revision events.Revision    `json:"revision"`
	ID       events.EventID     `json:"id"`
	Type     events.Type        `json:"type"`
	Time     events.Time        `json:"time"`
	Actor    events.Participant `json:"actor"`
	Cause    events.Cause       `json:"cause"`
	Policy   events.Position    `json:"policy"`
	Version  int                `json:"version"`
	Data     json.RawMessage    `json:"data"`
}

// ShowEvent shows an event. Data that is no JSON any more, because it was
// damaged, is shown as the text that it is.
func ShowEvent(r events.Recorded) EventShown {
	data := json.RawMessage(r.Data)
	if !json.Valid(data) {
		data, _ = json.Marshal(string(r.Data))
	}
	return EventShown{
		Position: r.Position, Stream: r.Stream, Revision: r.Revision, ID: r.ID, Type: r.Type(), Time: r.Time,
		Actor: r.Actor, Cause: r.Cause, Policy: r.Policy, Version: r.Version, Data: data,
	}
}

// Recorded is the event again, as far as it is shown: without its digest and the
// latest time up to it.
func (e EventShown) Recorded() (r events.Recorded, err error) {
	data := []byte(e.Data)
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = []byte(text) // it was no JSON
	}
	r = events.Recorded{
		Position: e.Position, Stream: e.Stream, Revision: e.Revision, ID: e.ID, Time: e.Time,
		Actor: e.Actor, Cause: e.Cause, Policy: e.Policy, Version: e.Version, Data: data,
	}
	r.Event, err = events.Decode(e.Type, e.Version, data)
	return r, err
}
