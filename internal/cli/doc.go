// Package cli is the command line: it turns words into operations, and what
// they answer into text for people or JSON for programs. Each command is one
// value in the table of All; help and completion are made from it. The package
// holds no rule of decklog's own, and does not know which ledgers there are.
//
// It parses with the standard library's flag: a library for commands costs a
// short program more than its work (ADR 0008).
package cli
