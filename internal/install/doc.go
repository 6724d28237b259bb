// Package install writes what a harness needs to know of decklog into the
// harness's own configuration: its hooks, the MCP server, the skill.
//
// What is there stays: comments, order, form and whatever else the files hold.
// A change is made in the text and not by writing a file anew, and what was
// changed is noted beside the user's other state, so that a removal restores a
// file byte for byte, or, where somebody has changed it since, takes out its own
// entries and nothing else. A file that cannot be read is left alone, and then
// so are all the others.
//
// Nothing here approves anything: where a harness wants its user to trust a hook
// or a folder, that is said, and left to the user.
package install
