// Package cloudevents writes recorded events as CloudEvents 1.0 in their JSON
// format, for programs that know that standard and nothing of decklog.
//
// It only writes: it opens no ledger and asks for nothing. Where a text was laid
// beside an event, the text stands in the data only when it was given one.
//
// An event of a thread, written over several lines here:
//
//	{"specversion":"1.0","id":"0b6d…","source":"urn:uuid:5f1c…","type":"decklog.ack.placed",
//	 "subject":"thread-3c9e…","time":"2026-11-30T09:00:10.000000Z","datacontenttype":"application/json",
//	 "dataschema":"decklog:schema/ack.placed/1","sequence":"00000000000000000042","partitionkey":"thread-3c9e…",
//	 "correlationid":"0193…","causationid":"7d20…","actor":"@smith","revision":"6","policy":"1",
//	 "data":{"thread":"3c9e…","message":"9a71…","by":"@smith","ack":"act"}}
//
// More attributes may be added; none changes its name, type or meaning.
package cloudevents

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"decklog/events"
)

// TypePrefix stands before a type of decklog's. It is the project's name and no
// domain: the standard advises one turned round, and decklog has none; that of
// somebody else would say that they define these types.
const TypePrefix = "decklog."

// Event is one recorded event as the standard has it. The attributes below Data
// schema are extensions; all of them are strings, because the standard's numbers
// have 32 bits and a ledger's places do not.
type Event struct {
	SpecVersion     string          `json:"specversion"`
	ID              events.EventID  `json:"id"`
	Source          string          `json:"source"` // the ledger
	Type            string          `json:"type"`
	Subject         string          `json:"subject"` // the stream
	Time            events.Time     `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	DataSchema      string          `json:"dataschema"`              // the type and the version of its schema
	Sequence        string          `json:"sequence"`                // the position, in digits that sort as text
	PartitionKey    string          `json:"partitionkey"`            // the stream: its events keep their order
	CorrelationID   string          `json:"correlationid,omitempty"` // the command that asked for it
	CausationID     string          `json:"causationid,omitempty"`   // the event that the command answered
	Actor           string          `json:"actor,omitempty"`
	Revision        string          `json:"revision"` // the place in its stream, from 0
	Policy          string          `json:"policy"`   // the position of the policy that it was decided under
	Data            json.RawMessage `json:"data"`     // as it was recorded
}

// Source names a ledger by its first event, in the same way wherever and from
// whichever position on it is exported: two ledgers begin with an event of one id,
// and source and id together must tell all events apart.
func Source(first events.Recorded) string {
	h := sha256.Sum256(fmt.Appendf(nil, "decklog cloudevents source v1\n%s\n%s\n%s\n%s", first.ID, first.Time, first.Actor, first.Data))
	u := [16]byte(h[:])
	u[6] = u[6]&0x0f | 0x80 // a UUID of version 8: made in a way of one's own
	u[8] = u[8]&0x3f | 0x80
	return "urn:uuid:" + events.UUID(u)
}

// Text is what was laid beside an event.
type Text struct {
	Body string
	Gone bool // it was taken back
}

// Of writes an event of the ledger that source names. A text becomes a member of
// the data: body_text, or where it was taken back body_redacted.
func Of(r events.Recorded, source string, text *Text) Event {
	return Event{
		SpecVersion: "1.0", ID: r.ID, Source: source, Type: TypePrefix + attribute(string(r.Type())), Subject: attribute(string(r.Stream)),
		Time: r.Time, DataContentType: "application/json", DataSchema: fmt.Sprintf("decklog:schema/%s/%d", segment(string(r.Type())), r.Version),
		Sequence: fmt.Sprintf("%020d", r.Position), PartitionKey: attribute(string(r.Stream)),
		CorrelationID: attribute(string(r.Cause.Command)), CausationID: attribute(string(r.Cause.Event)), Actor: attribute(string(r.Actor)),
		Revision: strconv.FormatInt(int64(r.Revision), 10), Policy: strconv.FormatInt(int64(r.Policy), 10), Data: data(r.Data, text),
	}
}

// data is the event's own JSON, and behind its members the text. Data that is no
// JSON any more, because it was damaged, is the text that it is.
func data(recorded []byte, text *Text) json.RawMessage {
	if !json.Valid(recorded) {
		recorded, _ = json.Marshal(string(recorded))
	}
	recorded = bytes.TrimSpace(recorded)
	end := bytes.LastIndexByte(recorded, '}')
	if text == nil || end < 0 || recorded[0] != '{' {
		return recorded
	}
	more := map[string]any{"body_text": text.Body}
	if text.Gone {
		more = map[string]any{"body_redacted": true}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(more) // a map of a text or a truth value can be encoded
	joined := append([]byte{}, recorded[:end]...)
	if len(bytes.TrimSpace(joined)) > 1 {
		joined = append(joined, ',')
	}
	return append(joined, bytes.TrimPrefix(bytes.TrimSpace(b.Bytes()), []byte("{"))...)
}

// attribute drops what the standard allows in no attribute: controls, and the code
// points that stand for no character. Names that decklog admits hold none.
func attribute(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// segment keeps of a type what may stand in a path as it is.
func segment(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return -1
	}, s)
}
