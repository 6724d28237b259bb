package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"decklog/internal/failure"
	"decklog/internal/token"
)

// Why an answer that takes long is given no more.
var (
	errToken = failure.New("bad_token", "ask again with another one", errors.New("the token is good no more"))
	errEnds  = failure.New("shutdown", "ask again in a moment", errors.New("the server ends"))
	errGone  = errors.New("the client went away")
)

// Still gives what [ops.Ops] asks of the caller of a request: whether it is there,
// and its token still good. Past a deadline of the context the caller counts as gone.
func (s *Server) Still(ctx context.Context) func() error {
	return func() error {
		switch {
		case s.life.Err() != nil:
			return errEnds
		case errors.Is(context.Cause(ctx), errToken), s.Good != nil && !s.Good(ctx):
			return errToken
		case ctx.Err() != nil:
			return errGone
		}
		return nil
	}
}

// watched are the tokens of those who wait. Each is looked at once for all of its
// holders: ten thousand sessions of a machine wait with the same one.
type watched struct {
	mu sync.Mutex
	of map[string]*watch // by the token's id
}

// watch is one token, with those who wait with it.
type watch struct {
	asked context.Context // of one of them, by which the token is looked at
	all   map[*holder]struct{}
	stop  chan struct{}
}

type holder struct {
	asked context.Context
	end   context.CancelCauseFunc
}

// watch ends a context within [TokenEvery] of when its token is good no more.
func (s *Server) watch(ctx context.Context, who token.Token) (context.Context, context.CancelFunc) {
	if s.Good == nil {
		return context.WithCancel(ctx)
	}
	h := &holder{asked: context.WithoutCancel(ctx)}
	ctx, h.end = context.WithCancelCause(ctx)
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	w := s.watched.of[who.ID]
	if w == nil {
		w = &watch{asked: h.asked, all: map[*holder]struct{}{}, stop: make(chan struct{})}
		s.watched.of[who.ID] = w
		go s.look(w)
	}
	w.all[h] = struct{}{}
	return ctx, func() {
		h.end(nil)
		s.watched.mu.Lock()
		defer s.watched.mu.Unlock()
		if delete(w.all, h); len(w.all) == 0 && s.watched.of[who.ID] == w {
			delete(s.watched.of, who.ID)
			close(w.stop)
		}
	}
}

// look looks at a token for as long as anybody waits with it.
func (s *Server) look(w *watch) {
	every := time.NewTicker(TokenEvery)
	defer every.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-every.C:
		}
		s.watched.mu.Lock()
		if !s.Good(w.asked) {
			// The machine's token keeps its id when it is made anew: who has the new one stays.
			for h := range w.all {
				if s.Good(h.asked) {
					w.asked = h.asked
				} else {
					h.end(errToken)
				}
			}
		}
		s.watched.mu.Unlock()
	}
}
