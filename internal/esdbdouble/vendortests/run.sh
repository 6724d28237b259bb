#!/bin/sh
# Runs the vendor's tests against the doubles that `double` has started. What is
# left out is named here with the reason; all else must pass, and the suites that
# matter must have run.
set -u
cd "$(dirname "$0")" || exit 2

skip=$(sed 's/ *#.*//' <<'END' | paste -sd '|'
^TestStreams$                       # the suites again, under another name
^TestMisc$                          # the same
^TestPersistentSubscriptions$       # the same
^TestPersistentSubscriptionSuite$   # persistent subscriptions: decklog uses none
^TestPersistentSubscriptionReadSuite$
^TestProjectionSuite$               # projections: decklog uses none
^TestInsecureAuthenticationSuite$   # asks by making persistent subscriptions
^TestSecureAuthenticationSuite$/TestCallWithTLSAndDefaultCredentials  # the same
^TestSecureAuthenticationSuite$/TestCallWithTLSAndOverrideCredentials
^TestClusterSuite$                  # the same, and ends a node over HTTP
^TestOAuthAuthenticationSuite$      # tokens: the client of decklog has none
^TestMultiAppendEventsSuite$        # appends to several streams: the same
^TestAppendRecordsSuite$            # the same
END
)

log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
${GO:-go} test -count 1 -v -skip "$skip" github.com/kurrent-io/KurrentDB-Client-Go/test >"$log" 2>&1
code=$?
grep -E '^ *--- |^(ok|FAIL|panic)' "$log"
[ $code -eq 0 ] || { cat "$log" >&2; exit $code; }
for suite in AppendEventsSuite ReadStreamSuite ReadAllSuite SubscriptionSuite DeleteSuite ConnectionSuite TLS; do
  grep -q "^--- PASS: Test$suite " "$log" || { echo "Test$suite did not run" >&2; exit 1; }
done
