package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"decklog/events"
)

// ReachMax is how long a reading waits at most for a position that it must see.
const ReachMax = 2 * time.Second

// Reach waits until a ledger's end has reached a position, for [ReachMax] at most,
// and gives the end: what is read from then on sees at least that. An end before the
// position says that it has not come, and may never: then a reading is stale.
//
// It is for a ledger that several machines share, where what one of them has
// recorded is a moment on its way to the others. On one file there is nothing to
// wait for.
func Reach(ctx context.Context, o Operations, at events.Position) (end events.Position, err error) {
	if end, err = o.End(); err != nil || end >= at {
		return end, err
	}
	wait, cancel := context.WithTimeout(ctx, ReachMax)
	defer cancel()
	for end < at {
		if err := o.Past(wait, end); err != nil {
			if wait.Err() == nil {
				return end, err
			}
			return o.End()
		}
		if end, err = o.End(); err != nil {
			return end, err
		}
	}
	return end, nil
}

// Seen is a document as it is shown: one of a ledger that has not reached what the
// reading must see has stale as its last field, which no other has.
func Seen(document any, stale bool) any {
	if stale {
		return staleDocument{document}
	}
	return document
}

type staleDocument struct{ document any }

func (s staleDocument) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // as what it stands in
	if err := e.Encode(s.document); err != nil {
		return nil, err
	}
	fields, is := bytes.CutSuffix(bytes.TrimSpace(b.Bytes()), []byte("}"))
	if !is {
		return nil, fmt.Errorf("say that a document is stale: %T is no object", s.document)
	}
	if !bytes.HasSuffix(fields, []byte("{")) {
		fields = append(fields, ',')
	}
	return append(fields, `"stale":true}`...), nil
}
