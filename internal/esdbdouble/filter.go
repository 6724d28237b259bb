package esdbdouble

import (
	"regexp"
	"slices"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
)

func everything(*record) bool { return true }

// filterOf is what a filter lets through, and how many events are considered for
// one page. The server takes no window for one of a page, and not for none.
func filterOf(f *streams.ReadReq_Options_FilterOptions) (lets func(*record) bool, window int, err error) {
	var expression *streams.ReadReq_Options_FilterOptions_Expression
	var of func(*record) string
	switch by := f.GetFilter().(type) {
	case *streams.ReadReq_Options_FilterOptions_StreamIdentifier:
		expression, of = by.StreamIdentifier, func(r *record) string { return r.stream }
	case *streams.ReadReq_Options_FilterOptions_EventType:
		expression, of = by.EventType, func(r *record) string { return r.kind }
	default:
		return nil, 0, refuse(codes.InvalidArgument, "a filter is by stream or by type")
	}

	switch w := f.GetWindow().(type) {
	case *streams.ReadReq_Options_FilterOptions_Max:
		window = int(w.Max)
	case *streams.ReadReq_Options_FilterOptions_Count:
		window = pageMax
	default:
		return nil, 0, refuse(codes.InvalidArgument, "a filter has a window")
	}

	if expression.GetRegex() == "" {
		prefixes := expression.GetPrefix()
		return func(r *record) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(of(r), p) })
		}, window, nil
	}
	pattern, err := regexp.Compile(expression.GetRegex())
	if err != nil {
		return nil, 0, refuse(codes.InvalidArgument, "the filter's expression: %v", err)
	}
	return func(r *record) bool { return pattern.MatchString(of(r)) }, window, nil
}
