package ops_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"decklog/events"
	"decklog/internal/ops"
)

// Pages are read ahead of the visit. Who has seen enough waits until nobody reads
// for him any more, and leaves nothing behind.
func TestAVisitThatFailsEndsTheReading(t *testing.T) {
	d := played(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	enough, seen := errors.New("enough"), 0
	_, refused, err := d.Events(ops.EventsRequest{}, func(events.Recorded) error {
		if seen++; seen == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || refused != nil || seen != 2 {
		t.Errorf("after %d events: %v, %v", seen, refused, err)
	}
}
