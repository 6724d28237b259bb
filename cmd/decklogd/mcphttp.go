package main

import (
	"errors"
	"net/http"
	"os"
	"time"

	"decklog/internal/callers"
	"decklog/internal/failure"
	"decklog/internal/mcp"
	"decklog/internal/serve"
	"decklog/internal/token"
)

// mcpPath is where the tools are served.
const mcpPath = "/mcp"

// mcpRule is what the tools ask of who calls them. Which of them change anything
// the door knows, so a token that may only read is let through to it.
var mcpRule = serve.Rule{Needs: token.Read}

// mcpDoor serves the tools to whomever a request's token names.
func (s *serving) mcpDoor() *mcp.Door {
	c := mcp.Config{
		Callers: callers.Beside(s.folder), Version: s.env.Version.Version, Stderr: os.Stderr, Now: func() time.Time { return s.env.World.Now().Std() },
	}
	return mcp.NewDoor(c, func(r *http.Request) (mcp.Guest, error) {
		who, known := serve.Who(r.Context())
		if !known {
			return mcp.Guest{}, failure.New("no_token", "send a token: Authorization: Bearer TOKEN", errors.New("the request names nobody"))
		}
		desk := s.server.DeskOf(who)
		desk.Still = s.server.Still(r.Context())
		return mcp.Guest{
			Ops: desk, Token: who.ID + " " + string(who.Participant), ReadOnly: !who.Scope.May(token.Write), Believed: who.OfMachine(),
		}, nil
	})
}
