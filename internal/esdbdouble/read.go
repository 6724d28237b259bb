package esdbdouble

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
)

// reading is one call of Read: a read of a stream or of $all, or a subscription
// to either.
type reading struct {
	*Call
	options *streams.ReadReq_Options
	wire    streams.Streams_ReadServer
}

// send is where slow readers are waited for; nothing is locked while it runs.
func (r *reading) send(answer *streams.ReadResp) error {
	points := []Point{Send}
	switch answer.GetContent().(type) {
	case *streams.ReadResp_Confirmation:
		points = append(points, SendConfirmation)
	case *streams.ReadResp_Event:
		points = append(points, SendEvent)
	case *streams.ReadResp_Checkpoint_:
		points = append(points, SendCheckpoint)
	case *streams.ReadResp_CaughtUp_:
		points = append(points, SendCaughtUp)
	}
	for _, at := range points {
		if err := r.passes(at); err != nil {
			return err
		}
	}
	return r.wire.Send(answer)
}

// event sends an event, with that to which it links if that was asked for.
func (r *reading) event(e *record) error {
	asText := r.options.GetUuidOption().GetString_() != nil
	read := &streams.ReadResp_ReadEvent{
		Event:    recorded(e, asText),
		Position: &streams.ReadResp_ReadEvent_CommitPosition{CommitPosition: uint64(e.position)},
	}
	if e.kind == "$>" && r.options.GetResolveLinks() {
		read.Link, read.Event = read.Event, recorded(r.linked(e), asText)
	}
	return r.send(&streams.ReadResp{Content: &streams.ReadResp_Event{Event: read}})
}

// linked is the event that a link names, unless it is gone.
func (r *reading) linked(link *record) *record {
	number, stream, _ := strings.Cut(string(link.data), "@")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	until, _ := r.Server.sight()
	p, err := r.Server.log.stream(stream, n, 1, false, until)
	if err != nil || len(p.events) == 0 || p.events[0].number != n {
		return nil
	}
	return p.events[0]
}

// Read is four calls in one, told apart by what it is asked for.
func (s *streamsService) Read(req *streams.ReadReq, stream streams.Streams_ReadServer) error {
	r := &reading{Call: s.call(stream.Context(), Read), options: req.GetOptions(), wire: stream}
	named, isStream := r.options.GetStreamOption().(*streams.ReadReq_Options_Stream)
	_, isAll := r.options.GetStreamOption().(*streams.ReadReq_Options_All)
	r.Stream = "$all"
	if isStream {
		r.Stream = string(named.Stream.GetStreamIdentifier().GetStreamName())
	}
	if err := r.passes(Begin); err != nil {
		return err
	}
	switch {
	case r.options.GetUuidOption().GetContent() == nil:
		return refuse(codes.InvalidArgument, "'uuidOption' is required")
	case !isStream && !isAll, r.Stream == "":
		return refuse(codes.InvalidArgument, "a read is of a stream or of $all")
	}
	if err := s.server.allows(r, r.Stream); err != nil {
		return err
	}
	if requiresLeader(r) {
		if _, err := s.server.leader(true); err != nil {
			return err
		}
	}

	backwards := r.options.GetReadDirection() == streams.ReadReq_Options_Backwards
	lets, window := everything, math.MaxInt
	if filter := r.options.GetFilter(); filter != nil {
		if isStream {
			return refuse(codes.InvalidArgument, "a filter is of $all")
		}
		var err error
		if lets, window, err = filterOf(filter); err != nil {
			return err
		}
	}
	if _, live := r.options.GetCountOption().(*streams.ReadReq_Options_Subscription); live {
		switch {
		case backwards:
			return refuse(codes.InvalidArgument, "a subscription goes forwards")
		case isStream:
			return r.placeless(r.follow(named.Stream))
		case r.options.GetFilter() != nil && r.options.GetFilter().GetCheckpointIntervalMultiplier() == 0:
			return refuse(codes.InvalidArgument, "checkpointIntervalMultiplier must be greater than zero")
		}
		return r.placeless(r.followAll(lets, window))
	}
	if isStream {
		return r.stream(named.Stream, backwards)
	}
	return r.placeless(r.all(lets, window, backwards))
}

// placeless says in the server's words that a position is not one.
func (r *reading) placeless(err error) error {
	if errors.Is(err, errInvalidPlace) {
		return refuse(codes.InvalidArgument, "Unexpected position")
	}
	return err
}

func (r *reading) stream(from *streams.ReadReq_Options_StreamOptions, backwards bool) error {
	number := int64(0)
	switch at := from.GetRevisionOption().(type) {
	case *streams.ReadReq_Options_StreamOptions_Revision:
		number = int64(min(at.Revision, math.MaxInt64))
	case *streams.ReadReq_Options_StreamOptions_End:
		number = math.MaxInt64
	}
	for left := r.options.GetCount(); left > 0; {
		until, _ := r.Server.sight()
		p, err := r.Server.log.stream(r.Stream, number, int(min(left, pageMax)), backwards, until)
		switch {
		case errors.Is(err, errNoStream):
			return r.send(&streams.ReadResp{Content: &streams.ReadResp_StreamNotFound_{StreamNotFound: &streams.ReadResp_StreamNotFound{
				StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(r.Stream)},
			}}})
		case errors.Is(err, deleted{}):
			return streamDeleted(r.Stream)
		}
		for _, e := range p.events {
			if err := r.event(e); err != nil {
				return err
			}
		}
		if p.end {
			return nil
		}
		left -= uint64(len(p.events))
		number = p.number
	}
	return nil
}

// from is the place at which a read or a subscription of $all begins.
func (r *reading) from() (at place, start, end bool) {
	switch at := r.options.GetAll().GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		p := placeOf(at.Position.GetCommitPosition(), at.Position.GetPreparePosition())
		return p, false, p == afterAll
	case *streams.ReadReq_Options_AllOptions_End:
		return afterAll, false, true
	}
	return first, true, false
}

func (r *reading) all(lets func(*record) bool, window int, backwards bool) error {
	at, _, _ := r.from()
	look := r.Server.log.all
	if backwards {
		look = r.Server.log.allBackwards
	}
	for left := r.options.GetCount(); left > 0; {
		until, _ := r.Server.sight()
		p, err := look(at, int(min(left, pageMax)), window, lets, until)
		if err != nil {
			return err
		}
		for _, e := range p.events {
			if err := r.event(e); err != nil {
				return err
			}
		}
		if p.end {
			return nil
		}
		left -= uint64(len(p.events))
		at = p.next
	}
	return nil
}
