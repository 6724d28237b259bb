// Package mcp is the door for agents whose harness speaks the Model Context
// Protocol: decklog's operations as tools. It turns a tool's input into an
// operation, and what that answers into a text that a model can read and that a
// person can, with the data beside it where nobody else's words are in it.
//
// [Run] serves one client on standard input and output; a [Door] serves many over
// HTTP, each by its token. What a call does is the same through both.
//
// It holds no rule, and decides no identity: what came with a call is handed on
// to the operations, which say who calls. What others wrote stands escaped in a
// frame, as a hook prints it. No answer is larger than AnswerBytesMax; one that
// would be says how to read on.
package mcp
