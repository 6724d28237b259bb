package esdbdouble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

type streamsService struct {
	streams.UnimplementedStreamsServer
	server *Server
	life   *life
}

func (s *streamsService) call(ctx context.Context, name string) *Call {
	return &Call{Context: ctx, Server: s.server, Name: name, life: s.life}
}

// write commits on the leader, with the faults before and after it.
func (c *Call) write(do func(*Log, *ids) (done, error)) (done, error) {
	leader, err := c.Server.leader(requiresLeader(c))
	if err != nil {
		return done{}, err
	}
	if err := c.passes(Commit); err != nil {
		return done{}, err
	}
	d, err := leader.commit(c.life, do)
	if err != nil {
		return done{}, err
	}
	return d, c.passes(Answer)
}

// proposal checks one event of an append.
func proposal(id *shared.UUID, properties map[string]string, data, metadata []byte) (proposed, error) {
	kind, there := properties["type"]
	if !there {
		return proposed{}, propertyMissing("type")
	}
	content, there := properties["content-type"]
	if !there {
		return proposed{}, propertyMissing("content-type")
	}
	read, err := idOf(id)
	if err != nil || read == uuid.Nil || kind == "" {
		return proposed{}, thrown()
	}
	return proposed{id: read, kind: kind, json: content == contentJSON, data: data, metadata: metadata}, nil
}

// revision is a revision that was expected. There are fewer than the wire has
// room for.
func revision(n uint64) (int64, error) {
	if n >= math.MaxInt64 {
		return 0, refuse(codes.InvalidArgument, "'%d' is not a valid stream revision", n)
	}
	return int64(n), nil
}

// Append reads an append to its end and then writes it whole, or nothing.
func (s *streamsService) Append(stream streams.Streams_AppendServer) error {
	c := s.call(stream.Context(), Append)
	if err := c.passes(Begin); err != nil {
		return err
	}
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	options := req.GetOptions()
	if options == nil {
		return thrown()
	}
	c.Stream = string(options.GetStreamIdentifier().GetStreamName())
	expected := expectAny
	switch e := options.GetExpectedStreamRevision().(type) {
	case *streams.AppendReq_Options_Revision:
		if expected, err = revision(e.Revision); err != nil {
			return err
		}
	case *streams.AppendReq_Options_NoStream:
		expected = expectNone
	case *streams.AppendReq_Options_StreamExists:
		expected = expectExists
	case *streams.AppendReq_Options_Any:
	default:
		return refuse(codes.InvalidArgument, "the expected revision is missing")
	}
	if err := s.server.mayWrite(c, c.Stream); err != nil {
		return err
	}
	if err := c.passes(Message); err != nil {
		return err
	}

	var events []proposed
	size := 0
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		m := req.GetProposedMessage()
		if m == nil {
			return thrown()
		}
		e, err := proposal(m.GetId(), m.GetMetadata(), m.GetData(), m.GetCustomMetadata())
		if err != nil {
			return err
		}
		if size += e.size(); size > s.server.config.AppendBytesMax {
			return appendTooLarge(s.server.config.AppendBytesMax)
		}
		events = append(events, e)
		if err := c.passes(Message); err != nil {
			return err
		}
	}

	d, err := c.write(func(l *Log, known *ids) (done, error) { return l.append(c.Stream, expected, events, known) })
	if conflict, is := errors.AsType[wrongVersion](err); is {
		s.server.conflicts.Add(1)
		return stream.SendAndClose(&streams.AppendResp{Result: &streams.AppendResp_WrongExpectedVersion_{
			WrongExpectedVersion: conflictOf(expected, conflict.current),
		}})
	}
	if errors.Is(err, deleted{}) {
		return streamDeleted(c.Stream)
	}
	if err != nil {
		return err
	}
	success := &streams.AppendResp_Success{
		CurrentRevisionOption: &streams.AppendResp_Success_CurrentRevision{CurrentRevision: uint64(d.last)},
		PositionOption: &streams.AppendResp_Success_Position{
			Position: &streams.AppendResp_Position{CommitPosition: uint64(d.position), PreparePosition: uint64(d.position)},
		},
	}
	if d.last < 0 {
		success.CurrentRevisionOption = &streams.AppendResp_Success_NoStream{NoStream: &shared.Empty{}}
	}
	if s.server.quirksNow().NoPosition {
		success.PositionOption = &streams.AppendResp_Success_NoPosition{NoPosition: &shared.Empty{}}
	}
	return stream.SendAndClose(&streams.AppendResp{Result: &streams.AppendResp_Success_{Success: success}})
}

// mayWrite refuses names that nobody may append to, and those who may not.
func (s *Server) mayWrite(ctx context.Context, stream string) error {
	switch stream {
	case "":
		return thrown()
	case "$all":
		return AccessDenied()
	}
	return s.allows(ctx, stream)
}

// conflictOf says what was expected and what is there, for clients from before
// and after 20.6 at once.
func conflictOf(expected, current int64) *streams.AppendResp_WrongExpectedVersion {
	w := &streams.AppendResp_WrongExpectedVersion{}
	switch expected {
	case expectAny:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedAny{ExpectedAny: &shared.Empty{}}
		w.ExpectedRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_Any_20_6_0{Any_20_6_0: &shared.Empty{}}
	case expectExists:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedStreamExists{ExpectedStreamExists: &shared.Empty{}}
		w.ExpectedRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_StreamExists_20_6_0{StreamExists_20_6_0: &shared.Empty{}}
	case expectNone:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedNoStream{ExpectedNoStream: &shared.Empty{}}
		w.ExpectedRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_ExpectedRevision_20_6_0{ExpectedRevision_20_6_0: math.MaxUint64}
	default:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedRevision{ExpectedRevision: uint64(expected)}
		w.ExpectedRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_ExpectedRevision_20_6_0{ExpectedRevision_20_6_0: uint64(expected)}
	}
	if current < 0 {
		w.CurrentRevisionOption = &streams.AppendResp_WrongExpectedVersion_CurrentNoStream{CurrentNoStream: &shared.Empty{}}
		w.CurrentRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_NoStream_20_6_0{NoStream_20_6_0: &shared.Empty{}}
		return w
	}
	w.CurrentRevisionOption = &streams.AppendResp_WrongExpectedVersion_CurrentRevision{CurrentRevision: uint64(current)}
	w.CurrentRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_CurrentRevision_20_6_0{CurrentRevision_20_6_0: uint64(current)}
	return w
}

// remove deletes a stream, softly or for ever.
func (s *streamsService) remove(ctx context.Context, name, stream string, expected int64, forEver bool) (done, error) {
	c := s.call(ctx, name)
	c.Stream = stream
	if err := c.passes(Begin); err != nil {
		return done{}, err
	}
	if err := s.server.mayWrite(ctx, stream); err != nil {
		return done{}, err
	}
	d, err := c.write(func(l *Log, known *ids) (done, error) { return l.delete(stream, expected, forEver, known) })
	if conflict, is := errors.AsType[wrongVersion](err); is {
		return done{}, deleteConflict(stream, expected, conflict.current)
	}
	if errors.Is(err, deleted{}) {
		return done{}, streamDeleted(stream)
	}
	return d, err
}

// Delete hides a stream until it is appended to again.
func (s *streamsService) Delete(ctx context.Context, req *streams.DeleteReq) (*streams.DeleteResp, error) {
	expected, err := expectAny, error(nil)
	switch e := req.GetOptions().GetExpectedStreamRevision().(type) {
	case *streams.DeleteReq_Options_Revision:
		expected, err = revision(e.Revision)
	case *streams.DeleteReq_Options_NoStream:
		expected = expectNone
	case *streams.DeleteReq_Options_StreamExists:
		expected = expectExists
	}
	if err != nil {
		return nil, err
	}
	d, err := s.remove(ctx, Delete, string(req.GetOptions().GetStreamIdentifier().GetStreamName()), expected, false)
	if err != nil {
		return nil, err
	}
	at := &streams.DeleteResp_Position{CommitPosition: uint64(d.position), PreparePosition: uint64(d.position)}
	return &streams.DeleteResp{PositionOption: &streams.DeleteResp_Position_{Position: at}}, nil
}

// Tombstone ends a stream for ever.
func (s *streamsService) Tombstone(ctx context.Context, req *streams.TombstoneReq) (*streams.TombstoneResp, error) {
	expected, err := expectAny, error(nil)
	switch e := req.GetOptions().GetExpectedStreamRevision().(type) {
	case *streams.TombstoneReq_Options_Revision:
		expected, err = revision(e.Revision)
	case *streams.TombstoneReq_Options_NoStream:
		expected = expectNone
	case *streams.TombstoneReq_Options_StreamExists:
		expected = expectExists
	}
	if err != nil {
		return nil, err
	}
	d, err := s.remove(ctx, Tombstone, string(req.GetOptions().GetStreamIdentifier().GetStreamName()), expected, true)
	if err != nil {
		return nil, err
	}
	at := &streams.TombstoneResp_Position{CommitPosition: uint64(d.position), PreparePosition: uint64(d.position)}
	return &streams.TombstoneResp{PositionOption: &streams.TombstoneResp_Position_{Position: at}}, nil
}

// batch is an append that has begun to come in over BatchAppend.
type batch struct {
	options  *streams.BatchAppendReq_Options
	stream   string
	expected int64
	events   []proposed
	size     int
}

// BatchAppend takes many appends over one call and answers each by its number.
// What is wrong with one of them is said in its answer, and ends nothing.
func (s *streamsService) BatchAppend(stream streams.Streams_BatchAppendServer) error {
	c := s.call(stream.Context(), BatchAppend)
	if err := c.passes(Begin); err != nil {
		return err
	}
	pending := map[string]*batch{}
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, err := idOf(req.GetCorrelationId())
		if err != nil {
			return thrown()
		}
		b := pending[id.String()]
		if options := req.GetOptions(); options != nil {
			b = &batch{options: options, stream: string(options.GetStreamIdentifier().GetStreamName())}
			pending[id.String()] = b
		}
		if b == nil {
			continue // its append was refused
		}
		c.Stream = b.stream
		if err := c.passes(Message); err != nil {
			return err
		}
		answer, err := s.take(c, b, req)
		if err != nil {
			return err // of a fault, or that nobody here leads
		}
		if answer == nil {
			continue
		}
		delete(pending, id.String())
		answer.CorrelationId = req.GetCorrelationId()
		answer.StreamIdentifier = b.options.GetStreamIdentifier()
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// take adds a part to an append, and answers it when that was the last or the
// append is refused.
func (s *streamsService) take(c *Call, b *batch, req *streams.BatchAppendReq) (*streams.BatchAppendResp, error) {
	if req.GetOptions() != nil {
		if err := s.server.mayWrite(c, b.stream); err != nil {
			return failed(codes.PermissionDenied, "Access Denied", &shared.AccessDenied{}), nil
		}
		if d := req.GetOptions().GetDeadline(); d != nil && d.AsDuration() <= 0 {
			return failed(codes.DeadlineExceeded, "Timeout", &shared.Timeout{}), nil
		}
		if d := req.GetOptions().GetDeadline_21_10_0(); d != nil && !d.AsTime().After(time.Now()) {
			return failed(codes.DeadlineExceeded, "Timeout", &shared.Timeout{}), nil
		}
		b.expected = expectAny
		switch e := req.GetOptions().GetExpectedStreamPosition().(type) {
		case *streams.BatchAppendReq_Options_StreamPosition:
			n, err := revision(e.StreamPosition)
			if err != nil {
				return badRequest(err), nil
			}
			b.expected = n
		case *streams.BatchAppendReq_Options_NoStream:
			b.expected = expectNone
		case *streams.BatchAppendReq_Options_StreamExists:
			b.expected = expectExists
		}
	}
	for _, m := range req.GetProposedMessages() {
		e, err := proposal(m.GetId(), m.GetMetadata(), m.GetData(), m.GetCustomMetadata())
		if err != nil {
			return badRequest(err), nil
		}
		b.size += e.size()
		b.events = append(b.events, e)
	}
	if most := s.server.config.AppendBytesMax; b.size > most {
		return failed(codes.InvalidArgument, fmt.Sprintf("Maximum Append Size of %d Exceeded.", most),
			&shared.MaximumAppendSizeExceeded{MaxAppendSize: uint32(most)}), nil
	}
	if !req.GetIsFinal() {
		return nil, nil
	}

	d, err := c.write(func(l *Log, known *ids) (done, error) { return l.append(b.stream, b.expected, b.events, known) })
	if conflict, is := errors.AsType[wrongVersion](err); is {
		return failed(codes.FailedPrecondition, "Wrong Expected Version", batchConflict(b.expected, conflict.current)), nil
	}
	if errors.Is(err, deleted{}) {
		return failed(codes.FailedPrecondition, "Stream Deleted",
			&shared.StreamDeleted{StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(b.stream)}}), nil
	}
	if r, is := errors.AsType[*refusal](err); is && r.code == codes.Aborted {
		return failed(codes.DeadlineExceeded, "Timeout", &shared.Timeout{}), nil
	}
	if err != nil {
		return nil, err
	}
	success := &streams.BatchAppendResp_Success{
		CurrentRevisionOption: &streams.BatchAppendResp_Success_CurrentRevision{CurrentRevision: uint64(d.last)},
		PositionOption: &streams.BatchAppendResp_Success_Position{
			Position: &shared.AllStreamPosition{CommitPosition: uint64(d.position), PreparePosition: uint64(d.position)},
		},
	}
	if d.last < 0 {
		success.CurrentRevisionOption = &streams.BatchAppendResp_Success_NoStream{NoStream: &emptypb.Empty{}}
	}
	if s.server.quirksNow().NoPosition {
		success.PositionOption = &streams.BatchAppendResp_Success_NoPosition{NoPosition: &emptypb.Empty{}}
	}
	return &streams.BatchAppendResp{Result: &streams.BatchAppendResp_Success_{Success: success}}, nil
}

// failed is a refusal within a call that goes on. Clients go by the detail.
func failed(code codes.Code, message string, detail proto.Message) *streams.BatchAppendResp {
	packed, err := anypb.New(detail)
	if err != nil {
		panic(err) // a message that was made here
	}
	return &streams.BatchAppendResp{Result: &streams.BatchAppendResp_Error{
		Error: &rpcstatus.Status{Code: int32(code), Message: message, Details: []*anypb.Any{packed}},
	}}
}

func badRequest(err error) *streams.BatchAppendResp {
	_, message, _ := strings.Cut(err.Error(), ": ")
	return failed(codes.InvalidArgument, message, &shared.BadRequest{Message: message})
}

func batchConflict(expected, current int64) *shared.WrongExpectedVersion {
	w := &shared.WrongExpectedVersion{}
	switch expected {
	case expectAny:
		w.ExpectedStreamPositionOption = &shared.WrongExpectedVersion_ExpectedAny{ExpectedAny: &emptypb.Empty{}}
	case expectExists:
		w.ExpectedStreamPositionOption = &shared.WrongExpectedVersion_ExpectedStreamExists{ExpectedStreamExists: &emptypb.Empty{}}
	case expectNone:
		w.ExpectedStreamPositionOption = &shared.WrongExpectedVersion_ExpectedNoStream{ExpectedNoStream: &emptypb.Empty{}}
	default:
		w.ExpectedStreamPositionOption = &shared.WrongExpectedVersion_ExpectedStreamPosition{ExpectedStreamPosition: uint64(expected)}
	}
	if current < 0 {
		w.CurrentStreamRevisionOption = &shared.WrongExpectedVersion_CurrentNoStream{CurrentNoStream: &emptypb.Empty{}}
		return w
	}
	w.CurrentStreamRevisionOption = &shared.WrongExpectedVersion_CurrentStreamRevision{CurrentStreamRevision: uint64(current)}
	return w
}
