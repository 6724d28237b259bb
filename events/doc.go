// Package events says what can happen in decklog: the event types, how each is
// written, the streams they lie in, the ids they carry, and what a ledger must
// promise to hold them.
//
// An event is a past fact. It is never changed and never removed; a format
// grows only by new optional fields, and a new meaning is a new type. Every
// type and version has a frozen sample in testdata/samples, which must decode
// and encode byte for byte for as long as decklog exists.
//
// The package knows no clock, no file, no network and no database, and imports
// nothing else of decklog.
package events
