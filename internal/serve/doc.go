// Package serve is the door of decklog that others reach over HTTP and a unix
// socket: the operations under /v1/, the events as they come, and whether the
// ledger is well. It reads requests, finds out whom a token names, and asks for
// operations as the table in package api has them. It holds no rule of the
// ledger and knows neither which ledger it serves nor how it is shown.
package serve
