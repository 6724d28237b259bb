// Package dashboard is the picture of a ledger in a browser: threads, one thread
// replayed to any moment, what is owed, mailboxes, refusals, and the ledger's
// health. Everything is a page that the server writes and that needs no script to
// be read or acted on; a script keeps it alive and adds keys.
//
// It reads and acts through the operations alone, and holds no rule of its own: who
// may do what is answered by a receipt or a refusal, which it shows. It knows a
// token only as a cookie's value that its configuration opens, and neither where
// tokens are kept nor which ledger it shows. What others wrote is text on its
// pages, never markup, and nothing of it is ever run.
package dashboard
