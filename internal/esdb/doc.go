// Package esdb is the ledger of several machines: the events lie in an
// EventStoreDB or KurrentDB cluster, and each machine has a mirror of them in a
// file of its own.
//
// The mirror is a SQLite ledger: the same events, bodies and rows of the views,
// and the place in the cluster's log up to which it has them, all in the same
// transactions. Everything that is read is read there. A projector follows the
// cluster through one subscription, and puts what comes at the mirror's end.
//
// A position is an event's place among ours in the order of the cluster's log,
// counted from 1. Every machine reads the same order from the same beginning, so
// an event has the same position, and with it the same digest, on all of them.
//
// An Update decides on the mirror, in a transaction that is rolled back, and what
// it decided is sent to the cluster, each stream's part at exactly the revision
// that the decision saw. What another machine has appended to these streams in
// the meantime is a conflict, and the decision is made again. Once the mirror has
// received what was sent, the Update is over. So the rules of one stream hold
// across machines, and what is decided by looking at many streams, such as rates
// and duplicates, may be exceeded by what other machines did in the last moments.
//
// An Update that appends to several streams is several appends, in its order.
// Where one command has begun to be recorded, what is left of it is appended
// where the streams have got to, even by the next process: see outbox.go.
//
// Whether the mirror has what the cluster has is never taken for granted: see lag.go.
// While the cluster is away it is read, and says that it is stale. It can be made anew
// while it is read: see rebuild.go.
//
// The package knows the client library and the mirror, and nothing of commands.
package esdb
