// The vendor's own tests of its newer client, in a module of their own: its
// protocol buffers have the names of those of the client that decklog uses, and
// one program cannot hold both. No package here; `make vendor-tests` runs
// github.com/kurrent-io/KurrentDB-Client-Go/test as it was published.
module decklog/internal/esdbdouble/vendortests

go 1.26.0

require github.com/kurrent-io/KurrentDB-Client-Go v1.4.2 // indirect
