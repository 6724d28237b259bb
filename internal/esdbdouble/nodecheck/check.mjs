// A client that shares no code with ours reads what ours wrote, and appends in
// turn. It prints what it saw; the test that runs it compares.
//
//   node check.mjs URL
import {
  ANY, BACKWARDS, END, EventStoreDBClient, jsonEvent, NO_STREAM, START, streamNameFilter, StreamNotFoundError, WrongExpectedVersionError,
} from "@eventstore/db-client";

const client = EventStoreDBClient.connectionString(process.argv[2]);
const say = (what, seen) => console.log(what + ": " + JSON.stringify(seen));
const id = (n) => "00000000-0000-4000-8000-00000000000" + n;
const told = (e) => [e.streamId, Number(e.revision), e.id, e.type, e.data, e.metadata];

async function list(read) {
  const seen = [];
  for await (const { event } of read) seen.push(told(event));
  return seen;
}

async function refused(kind, act) {
  try {
    await act();
    return "not refused";
  } catch (e) {
    return e instanceof kind ? kind.name : String(e);
  }
}

say("stream", await list(client.readStream("dl.thread-1", { fromRevision: START })));
say("backwards", (await list(client.readStream("dl.thread-1", { direction: BACKWARDS, fromRevision: END, maxCount: 1 }))).length);

const events = [1, 2].map((n) => jsonEvent({ id: id(n), type: "said", data: "node " + n, metadata: { by: "@node" } }));
const first = await client.appendToStream("dl.seat-1", events, { expectedRevision: NO_STREAM });
say("append", [first.success, Number(first.nextExpectedRevision)]);
const again = await client.appendToStream("dl.seat-1", events, { expectedRevision: NO_STREAM });
say("again", again.position.commit === first.position.commit);
say("conflict", await refused(WrongExpectedVersionError, () =>
  client.appendToStream("dl.seat-1", [jsonEvent({ id: id(3), type: "said", data: "late" })], { expectedRevision: NO_STREAM })));

await client.appendToStream("dl.gone", [jsonEvent({ id: id(4), type: "said", data: "gone" })], { expectedRevision: ANY });
await client.deleteStream("dl.gone");
say("deleted", await refused(StreamNotFoundError, () => list(client.readStream("dl.gone"))));

const caughtUp = [];
let answered;
const subscription = client.subscribeToAll({ fromPosition: START, filter: streamNameFilter({ prefixes: ["dl.thread-", "dl.seat-"] }) });
const live = new Promise((resolve, reject) => {
  subscription.on("error", reject);
  subscription.on("data", ({ event }) => {
    caughtUp.push(event.streamId + " " + event.revision);
    if (caughtUp.length === 4) answered = client.appendToStream("dl.seat-1", [jsonEvent({ id: id(5), type: "said", data: "live" })], { expectedRevision: 1n });
    if (caughtUp.length === 5) resolve();
  });
});
await live;
await answered; // else what is disposed of cancels it
say("subscription", caughtUp);
await subscription.unsubscribe();
await client.dispose();
