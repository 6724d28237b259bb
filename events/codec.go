package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// SchemaVersion is the version in which this program writes every type. A type
// that needs another meaning gets another name, not another version; a version
// rises only when an older reader must not read the new form.
const SchemaVersion = 1

// Encode writes an event as it will be stored: JSON, its fields in the order of
// its Go type, nothing escaped that JSON does not demand.
func Encode(e Event) (data []byte, version int, err error) {
	if u, is := e.(Unknown); is {
		return u.Data, u.Version, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, 0, fmt.Errorf("encode %s: %w", e.EventType(), err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), SchemaVersion, nil
}

// Decode reads a stored event. A type or version that this program does not
// know is no error: it decodes as Unknown. So does stored text that is no JSON
// of its type, with ErrDamaged, so that a damaged event can still be shown.
func Decode(t Type, version int, data []byte) (Event, error) {
	if version != SchemaVersion {
		return Unknown{Type: t, Version: version, Data: data}, nil
	}
	if e, read := decodeCanonical(t, data); read {
		return e, nil
	}
	switch t {
	case TypeSessionJoined:
		return decode[SessionJoined](t, data)
	case TypeSessionLeft:
		return decode[SessionLeft](t, data)
	case TypeSeatTaken:
		return decode[SeatTaken](t, data)
	case TypeSeatLeft:
		return decode[SeatLeft](t, data)
	case TypeMessageSent:
		return decode[MessageSent](t, data)
	case TypeMessageEdited:
		return decode[MessageEdited](t, data)
	case TypeMessageDeleted:
		return decode[MessageDeleted](t, data)
	case TypeMessageExpired:
		return decode[MessageExpired](t, data)
	case TypeMessageUndelivered:
		return decode[MessageUndelivered](t, data)
	case TypeMessageRead:
		return decode[MessageRead](t, data)
	case TypeTurnFlipped:
		return decode[TurnFlipped](t, data)
	case TypeThreadDone:
		return decode[ThreadDone](t, data)
	case TypeCommandRefused:
		return decode[CommandRefused](t, data)
	case TypeMailboxLeased:
		return decode[MailboxLeased](t, data)
	case TypeMailboxConfirmed:
		return decode[MailboxConfirmed](t, data)
	case TypeMailboxTaken:
		return decode[MailboxTaken](t, data)
	case TypeMailboxReturned:
		return decode[MailboxReturned](t, data)
	case TypeLeaseExpired:
		return decode[LeaseExpired](t, data)
	case TypeInstructionLeased:
		return decode[InstructionLeased](t, data)
	case TypeInstructionConfirmed:
		return decode[InstructionConfirmed](t, data)
	case TypePolicyAdopted:
		return decode[PolicyAdopted](t, data)
	case TypePayloadAttached:
		return decode[PayloadAttached](t, data)
	case TypeAckPlaced:
		return decode[AckPlaced](t, data)
	case TypeStickerPlaced:
		return decode[StickerPlaced](t, data)
	case TypeStickerRemoved:
		return decode[StickerRemoved](t, data)
	case TypeHandoffOffered:
		return decode[HandoffOffered](t, data)
	case TypeHandoffAccepted:
		return decode[HandoffAccepted](t, data)
	case TypeHandoffDeclined:
		return decode[HandoffDeclined](t, data)
	case TypeHandoffClosed:
		return decode[HandoffClosed](t, data)
	case TypeRoutingJudged:
		return decode[RoutingJudged](t, data)
	case TypeRoutingUndone:
		return decode[RoutingUndone](t, data)
	case TypeOwedPassed:
		return decode[OwedPassed](t, data)
	case TypeOwedClosed:
		return decode[OwedClosed](t, data)
	case TypeOwedNudged:
		return decode[OwedNudged](t, data)
	case TypeOwedPaged:
		return decode[OwedPaged](t, data)
	case TypeReviewAsked:
		return decode[ReviewAsked](t, data)
	case TypeReviewLabelled:
		return decode[ReviewLabelled](t, data)
	case TypeCardPosted:
		return decode[CardPosted](t, data)
	case TypeCardUpdated:
		return decode[CardUpdated](t, data)
	case TypeDriverMoved:
		return decode[DriverMoved](t, data)
	case TypeReviewTimedOut:
		return decode[ReviewTimedOut](t, data)
	case TypeSeatAbsent:
		return decode[SeatAbsent](t, data)
	case TypeSeatReturned:
		return decode[SeatReturned](t, data)
	}
	return Unknown{Type: t, Version: version, Data: data}, nil
}

func decode[E Event](t Type, data []byte) (Event, error) {
	var e E
	err := json.Unmarshal(data, &e)
	if err == nil && bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		err = errors.New("null is no object") // to encoding/json it is an empty one
	}
	if err != nil {
		return Unknown{Type: t, Version: SchemaVersion, Data: data}, fmt.Errorf("decode %s: %w: %w", t, ErrDamaged, err)
	}
	return e, nil
}

// ThreadOf is the one thread that an event is about; empty when it is about
// none, or about several.
func ThreadOf(e Event) ThreadID {
	if threads := ThreadsOf(e); len(threads) == 1 {
		return threads[0]
	}
	return ""
}

// ThreadsOf lists the threads that an event names, each once, in its order.
func ThreadsOf(e Event) []ThreadID {
	switch e := e.(type) {
	case MessageSent:
		return []ThreadID{e.Thread}
	case MessageEdited:
		return []ThreadID{e.Thread}
	case MessageDeleted:
		return []ThreadID{e.Thread}
	case MessageExpired:
		return []ThreadID{e.Thread}
	case MessageUndelivered:
		return []ThreadID{e.Thread}
	case MessageRead:
		return []ThreadID{e.Thread}
	case TurnFlipped:
		return []ThreadID{e.Thread}
	case ThreadDone:
		return []ThreadID{e.Thread}
	case PayloadAttached:
		return []ThreadID{e.Thread}
	case AckPlaced:
		return []ThreadID{e.Thread}
	case StickerPlaced:
		return []ThreadID{e.Thread}
	case StickerRemoved:
		return []ThreadID{e.Thread}
	case HandoffOffered:
		return []ThreadID{e.Thread}
	case HandoffAccepted:
		return []ThreadID{e.Thread}
	case HandoffDeclined:
		return []ThreadID{e.Thread}
	case HandoffClosed:
		return []ThreadID{e.Thread}
	case RoutingJudged:
		return []ThreadID{e.Thread}
	case RoutingUndone:
		return []ThreadID{e.Thread}
	case OwedPassed:
		return []ThreadID{e.Thread}
	case OwedClosed:
		return []ThreadID{e.Thread}
	case OwedNudged:
		return []ThreadID{e.Thread}
	case OwedPaged:
		return []ThreadID{e.Thread}
	case ReviewAsked:
		return []ThreadID{e.Thread}
	case ReviewLabelled:
		return []ThreadID{e.Thread}
	case CardPosted:
		return []ThreadID{e.Thread}
	case CardUpdated:
		return []ThreadID{e.Thread}
	case DriverMoved:
		return []ThreadID{e.Thread}
	case ReviewTimedOut:
		return []ThreadID{e.Thread}
	case CommandRefused:
		if e.Thread != "" {
			return []ThreadID{e.Thread}
		}
	case MailboxLeased:
		return threadsOf(e.Items, func(l Leased) ThreadID { return l.Thread })
	case MailboxConfirmed:
		return threadsOf(e.Items, func(l Leased) ThreadID { return l.Thread })
	case LeaseExpired:
		return threadsOf(e.Items, func(l Leased) ThreadID { return l.Thread })
	case MailboxTaken:
		return threadsOf(e.Items, func(m Moved) ThreadID { return m.Thread })
	case MailboxReturned:
		return threadsOf(e.Items, func(m Moved) ThreadID { return m.Thread })
	}
	return nil
}

// Threads lists the threads that a recorded event names, and the one in whose
// stream it stands: one that this program cannot read belongs there all the same.
func (r Recorded) Threads() []ThreadID {
	threads := ThreadsOf(r.Event)
	if t := r.Stream.Thread(); t != "" && !slices.Contains(threads, t) {
		threads = append(threads, t)
	}
	return threads
}

func threadsOf[T any](items []T, thread func(T) ThreadID) []ThreadID {
	var out []ThreadID
next:
	for _, it := range items {
		t := thread(it)
		for _, seen := range out {
			if seen == t {
				continue next
			}
		}
		out = append(out, t)
	}
	return out
}
