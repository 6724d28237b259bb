// Package api is decklog's HTTP interface as a table: which path and method asks
// for which operation, with what, and what the answer looks like. The server, the
// client and the OpenAPI document are made from this one table, so that none of
// them can say something else than the others. It knows no socket, no token and
// no rule.
package api
