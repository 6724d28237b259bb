package esdbdouble

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	contentJSON   = "application/json"
	contentBinary = "application/octet-stream"
)

// ticks are what the server counts time in: a ten-millionth of a second.
func ticks(t time.Time) int64 { return t.UnixNano() / 100 }

func structured(id uuid.UUID) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{
		MostSignificantBits:  int64(binary.BigEndian.Uint64(id[:8])),
		LeastSignificantBits: int64(binary.BigEndian.Uint64(id[8:])),
	}}}
}

// idOf reads an id in either of the two forms that clients send.
func idOf(wire *shared.UUID) (id uuid.UUID, err error) {
	if s := wire.GetStructured(); s != nil {
		binary.BigEndian.PutUint64(id[:8], uint64(s.MostSignificantBits))
		binary.BigEndian.PutUint64(id[8:], uint64(s.LeastSignificantBits))
		return id, nil
	}
	return uuid.Parse(wire.GetString_())
}

// recorded is an event as it is read. A client that is told no creation time
// ends its process, so that is always there.
func recorded(r *record, idsAsText bool) *streams.ReadResp_ReadEvent_RecordedEvent {
	if r == nil {
		return nil
	}
	content := contentBinary
	if r.json {
		content = contentJSON
	}
	id := structured(r.id)
	if idsAsText {
		id = &shared.UUID{Value: &shared.UUID_String_{String_: r.id.String()}}
	}
	return &streams.ReadResp_ReadEvent_RecordedEvent{
		Id:               id,
		StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(r.stream)},
		StreamRevision:   uint64(r.number),
		PreparePosition:  uint64(r.position),
		CommitPosition:   uint64(r.position),
		Metadata:         map[string]string{"type": r.kind, "content-type": content, "created": strconv.FormatInt(ticks(r.created), 10)},
		CustomMetadata:   r.metadata,
		Data:             r.data,
	}
}

func unsigned(p place) (commit, prepare uint64) {
	wrap := func(n int64) uint64 {
		if n < 0 || n == math.MaxInt64 {
			return math.MaxUint64
		}
		return uint64(n)
	}
	return wrap(p.commit), wrap(p.prepare)
}

func checkpoint(p place, at time.Time) *streams.ReadResp {
	c := &streams.ReadResp_Checkpoint{}
	c.CommitPosition, c.PreparePosition = unsigned(p)
	addMessage(c, 3, timestamppb.New(at))
	return &streams.ReadResp{Content: &streams.ReadResp_Checkpoint_{Checkpoint: c}}
}

// caughtUp says that a subscription is live. The fields are younger than the
// client's own notion of the message, which keeps them as unknown ones.
func caughtUp(at time.Time, revision int64, p place) *streams.ReadResp_CaughtUp {
	c := &streams.ReadResp_CaughtUp{}
	addMessage(c, 1, timestamppb.New(at))
	if revision >= 0 {
		unknown := protowire.AppendTag(c.ProtoReflect().GetUnknown(), 2, protowire.VarintType)
		c.ProtoReflect().SetUnknown(protowire.AppendVarint(unknown, uint64(revision)))
	}
	if p != beforeAll {
		checkpoint := &streams.ReadResp_Checkpoint{} // of the same form as what is wanted
		checkpoint.CommitPosition, checkpoint.PreparePosition = unsigned(p)
		addMessage(c, 3, checkpoint)
	}
	return c
}

// addMessage adds a field that the message's type does not know.
func addMessage(to proto.Message, number protowire.Number, field proto.Message) {
	bytes, err := proto.Marshal(field)
	if err != nil {
		panic(err) // a message that was made here
	}
	unknown := protowire.AppendTag(to.ProtoReflect().GetUnknown(), number, protowire.BytesType)
	to.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, bytes))
}
