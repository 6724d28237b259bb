package esdbdouble_test

import (
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"decklog/internal/esdbdouble"
)

// batch is a part of an append as clients in other languages send it.
func batch(number, stream string, final bool, data ...string) *streams.BatchAppendReq {
	text := func(s string) *shared.UUID {
		return &shared.UUID{Value: &shared.UUID_String_{String_: uuid.NewSHA1(uuid.Nil, []byte(s)).String()}}
	}
	b := &streams.BatchAppendReq{CorrelationId: text(number), IsFinal: final}
	if stream != "" {
		b.Options = &streams.BatchAppendReq_Options{
			StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte(stream)},
			ExpectedStreamPosition: &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}},
			DeadlineOption:         &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(1e9)},
		}
	}
	for _, d := range data {
		b.ProposedMessages = append(b.ProposedMessages, &streams.BatchAppendReq_ProposedMessage{
			Id: text(d), Data: []byte(d), Metadata: map[string]string{"type": "said", "content-type": "application/octet-stream"},
		})
	}
	return b
}

func TestAppendsInBatchesAreAnsweredOneByOne(t *testing.T) {
	s, l := start(t, esdbdouble.Config{AppendBytesMax: 100})
	wire, err := raw(t, s).BatchAppend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := batch("late", "s", true, "x")
	late.Options.DeadlineOption = &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(0)}
	typeless := batch("typeless", "s", true, "x")
	typeless.ProposedMessages[0].Metadata = nil

	for _, of := range []struct {
		parts []*streams.BatchAppendReq
		code  codes.Code
		kind  string
	}{
		{[]*streams.BatchAppendReq{batch("1", "s", false, "a"), batch("1", "", true, "b")}, codes.OK, ""},
		{[]*streams.BatchAppendReq{batch("2", "s", true, "a", "b")}, codes.OK, ""},
		{[]*streams.BatchAppendReq{batch("3", "s", true, "c")}, codes.FailedPrecondition, "event_store.client.WrongExpectedVersion"},
		{[]*streams.BatchAppendReq{batch("4", "t", false, string(make([]byte, 200)))}, codes.InvalidArgument, "event_store.client.MaximumAppendSizeExceeded"},
		{[]*streams.BatchAppendReq{late}, codes.DeadlineExceeded, "event_store.client.Timeout"},
		{[]*streams.BatchAppendReq{typeless}, codes.InvalidArgument, "event_store.client.BadRequest"},
	} {
		for _, p := range of.parts {
			if err := wire.Send(p); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := wire.Recv()
		if err != nil {
			t.Fatal(err)
		}
		kind := ""
		if details := answer.GetError().GetDetails(); len(details) == 1 {
			kind = string(details[0].MessageName())
		}
		if codes.Code(answer.GetError().GetCode()) != of.code || kind != of.kind {
			t.Errorf("append %v is answered %v", of.parts[0], answer)
		}
		if of.code == codes.OK && answer.GetSuccess().GetCurrentRevision() != 1 {
			t.Errorf("two events end at revision %d", answer.GetSuccess().GetCurrentRevision())
		}
	}
	if n := len(l.Events("")); n != 4 { // with the server's own
		t.Errorf("%d events are there", n)
	}
}
