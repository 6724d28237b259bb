package esdbdouble

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// refusal is an error as it goes over the wire: a status, and in trailers what
// kind of error it is. Clients go by the trailers.
type refusal struct {
	code     codes.Code
	message  string
	trailers map[string]string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v: %s", r.code, r.message) }

func (r *refusal) GRPCStatus() *status.Status { return status.New(r.code, r.message) }

func refuse(code codes.Code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

func (r *refusal) with(pairs ...string) *refusal {
	r.trailers = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		r.trailers[pairs[i]] = pairs[i+1]
	}
	return r
}

// NotReady is what a server answers that has no leader yet, or is about to end.
func NotReady() error { return refuse(codes.Unavailable, "Server Is Not Ready") }

// TooBusy is what a server answers that has more to do than it can.
func TooBusy() error { return refuse(codes.Unavailable, "Server Is Too Busy") }

// TimedOut is what a server answers that did not get its write done in time.
// Whether it was written is unknown.
func TimedOut() error { return refuse(codes.Aborted, "Operation timed out: Commit phase timeout") }

// DeadlineExceeded is what a client sees when the server took too long for it.
func DeadlineExceeded() error { return refuse(codes.DeadlineExceeded, "Deadline Exceeded") }

// NotLeader is what a follower answers to one who wants a leader's answer only.
func NotLeader(host string, port int) error {
	return refuse(codes.NotFound, "Leader info available").with(
		"exception", "not-leader", "leader-endpoint-host", host, "leader-endpoint-port", strconv.Itoa(port))
}

// AccessDenied is what a server answers to one who may not.
func AccessDenied() error {
	return refuse(codes.PermissionDenied, "Access Denied").with("exception", "access-denied")
}

func streamDeleted(stream string) *refusal {
	return refuse(codes.FailedPrecondition, "Event stream '%s' is deleted.", stream).with("exception", "stream-deleted", "stream-name", stream)
}

func deleteConflict(stream string, expected, current int64) *refusal {
	return refuse(codes.FailedPrecondition,
		"Delete failed due to WrongExpectedVersion. Stream: %s, Expected version: %d, Actual version: %d", stream, expected, current).with(
		"exception", "wrong-expected-version", "stream-name", stream,
		"expected-version", strconv.FormatInt(expected, 10), "actual-version", strconv.FormatInt(current, 10))
}

func appendTooLarge(most int) *refusal {
	return refuse(codes.InvalidArgument, "Maximum Append Size of %d Exceeded.", most).with(
		"exception", "maximum-append-size-exceeded", "maximum-append-size", strconv.Itoa(most))
}

func propertyMissing(name string) *refusal {
	return refuse(codes.InvalidArgument, "Required Metadata Property '%s' is missing", name).with(
		"exception", "missing-required-metadata-property", "required-metadata-properties", "type,content-type")
}

// thrown is the answer to what the server did not foresee.
func thrown() *refusal { return refuse(codes.Unknown, "Exception was thrown by handler.") }

// onWire gives a refusal its trailers.
func onWire(ctx context.Context, err error) error {
	if r, is := errors.AsType[*refusal](err); is {
		_ = grpc.SetTrailer(ctx, metadata.New(r.trailers)) // fails only when the call is over
		return r.GRPCStatus().Err()
	}
	return err
}
