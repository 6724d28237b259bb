// Package esdbdouble stands in for an EventStoreDB server in tests: the real
// client speaks to it over real TCP, and it answers as the real one does.
//
// It speaks the streams, gossip and server-features services. It promises no
// more than the real one: positions are byte offsets with holes, what was
// appended before is recognised only as the server documents it, and the memory
// of ids that helps with appends at any revision is bounded and is lost with the
// process. Beyond that it can be told to fail: see [Fault], [Quirks], [Server]
// and [Cluster].
//
// The log is kept by a [Log], apart from the servers that write it, so that a
// server can die and come back, and several can be a cluster. A [Durable] one lies
// in a file, so that the process of the double can be killed, too.
//
// What it knows comes from the server's documentation and its published source,
// not from a server that ran beside it; the vendor's own client tests and a
// client in another language are its witnesses. It does not know scavenging,
// persistent subscriptions, projections and their links, access control lists,
// appends to several streams, secondary indexes, and how long the real one takes
// for anything but its syncs. What it replicates it replicates at once, or when it is told to;
// a leader's unreplicated writes are never lost, for there are none.
package esdbdouble
