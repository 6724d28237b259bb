package api

import (
	"reflect"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/ops"
	"decklog/projections"
)

// words are the types whose values are one of a few words, with these in their
// order. A test holds them against the constants in the source.
var words = map[reflect.Type][]string{}

func enlist[T ~string](all ...T) {
	for _, one := range all {
		words[reflect.TypeFor[T]()] = append(words[reflect.TypeFor[T]()], string(one))
	}
}

func init() {
	enlist(events.Request, events.Inform, events.Done)
	enlist(events.Working, events.Final)
	enlist(events.AckAct, events.AckNoInput)
	enlist(events.VerdictRoute, events.VerdictStay, events.VerdictUnavailable, events.VerdictNoMove)
	enlist(events.StateQueued, events.StateHeld, events.StateLeased, events.StateDelivered, events.StateRead,
		events.StateExpired, events.StateUndelivered, events.StateDeleted, events.StateDropped)
	enlist(events.LabelRoot, events.LabelBandage)
	enlist(events.RiskLow, events.RiskMed, events.RiskHigh)
	enlist(events.CardInvestigating, events.CardPlanning, events.CardDriving, events.CardReviewing, events.CardBlocked, events.CardDone)
	enlist(events.ArrivesNextToolCall, events.ArrivesNextPrompt, events.ArrivesNextSession, events.ArrivesOnlyIfResumed, events.ArrivesWhenFinal)
	enlist(events.KindMessage, events.KindAlert, events.KindCard, events.KindMirror, events.KindHandoffLine, events.KindReview)
	enlist(events.LostUnconfirmed, events.LostSessionEnded, events.LostExpired)
	enlist(events.HandoffDone, events.HandoffLapsed, events.HandoffCreditor)
	enlist(events.HandPerson, events.HandSeat, events.HandUnknown)
	enlist(events.FormFull, events.FormShort)
	enlist(events.ItemMessage, events.ItemNotice, events.ItemCall)
	enlist(events.SourceStartup, events.SourceResume, events.SourceClear, events.SourceCompact, events.SourceFork, events.SourceManual)
	enlist(events.EndLeft, events.EndCleared, events.EndProcessGone, events.EndUnseen)
	enlist(events.KindSession, events.KindSeat, events.KindPerson, events.KindBot)
	enlist(commands.TurnAnswer, commands.TurnWait, commands.TurnHold, commands.TurnJudge, commands.TurnStayOut)
	enlist(projections.HandoffIsOffered, projections.HandoffIsAccepted, projections.HandoffIsDeclined, projections.HandoffIsClosed)
	enlist(projections.OwedReply, projections.OwedHandoff, projections.OwedReview)
	enlist(ops.WaitReply, ops.WaitFinal, ops.WaitAny)
	enlist(commands.Codes()...)
	enlist(events.Types()...)
}

// threadStates are the states of a thread, which has no type for them.
var threadStates = []string{"open", "done"}

// wordsOf are the words that a field of a request may hold, where its type does
// not say so: the operation reads them from a text. Nil: any text.
func wordsOf(r *Route, name string, of reflect.Type) []string {
	of, except := wordType(r, name, of)
	if of == nil {
		if r.Name == "threads" && name == "state" {
			return threadStates
		}
		return nil
	}
	var left []string
	for _, word := range words[of] {
		if word != except {
			left = append(left, word)
		}
	}
	return left
}

// wordType is the type whose words a field takes, and the one of them that only
// decklog itself says.
func wordType(r *Route, name string, of reflect.Type) (_ reflect.Type, except string) {
	if words[of] != nil {
		return of, ""
	}
	switch name {
	case "intent":
		return reflect.TypeFor[events.Intent](), ""
	case "turn":
		return reflect.TypeFor[events.Turn](), ""
	case "ack":
		return reflect.TypeFor[events.Ack](), ""
	case "verdict":
		return reflect.TypeFor[events.Verdict](), string(events.VerdictNoMove)
	case "label":
		return reflect.TypeFor[events.Label](), ""
	case "risk":
		return reflect.TypeFor[events.Risk](), ""
	case "status":
		return reflect.TypeFor[events.CardStatus](), ""
	case "code":
		return reflect.TypeFor[commands.Code](), ""
	case "type":
		return reflect.TypeFor[events.Type](), ""
	case "state":
		if r.Name == "inbox" {
			return reflect.TypeFor[events.DeliveryState](), string(events.StateDropped) // it is of calls, and no message has it
		}
	}
	return nil, ""
}
