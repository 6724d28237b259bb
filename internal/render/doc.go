// Package render turns what a hook run leased into text for a model's context,
// and what somebody wrote into text for a terminal.
//
// A message is shown in a frame, in the Markup that its door needs. What stands
// in the attributes of the frame's tag, and all that follows its end, is
// decklog's; what stands between is its sender's. A body cannot end its frame, begin another, or look to a reader as
// if it did. That is a promise about text, not about a model that reads it: the
// standing instruction says what a frame means.
//
// Sizes are bytes of the JSON string in which a hook's answer carries the text
// (EncodedLen), because the harnesses cap what arrives, each by its own count.
//
// The package reads no clock and no file: equal input yields equal text.
package render
