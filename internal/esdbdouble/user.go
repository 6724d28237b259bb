package esdbdouble

import (
	"context"
	"encoding/base64"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// header is the value of a header of a call.
func header(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// requiresLeader says that only a leader's answer will do.
func requiresLeader(ctx context.Context) bool {
	return strings.EqualFold(header(ctx, "requires-leader"), "true")
}

// allows refuses a call to a stream from one who may not.
func (s *Server) allows(ctx context.Context, stream string) error {
	if len(s.config.Users) == 0 {
		return nil
	}
	given := header(ctx, "authorization")
	if given == "" {
		return AccessDenied()
	}
	encoded, _ := strings.CutPrefix(given, "Basic ")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	name, password, both := strings.Cut(string(decoded), ":")
	for _, u := range s.config.Users {
		if err == nil && both && u.Name == name && u.Password == password {
			if strings.HasPrefix(stream, "$") && !u.Admin {
				return AccessDenied()
			}
			return nil
		}
	}
	return refuse(codes.Unauthenticated, "Unauthenticated")
}
