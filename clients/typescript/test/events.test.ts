import assert from "node:assert/strict";
import { test } from "node:test";

import type { EventOptions } from "@circadia/client";

import { destroy, eventStream, type FakeServer, problem, startServer } from "./fake-server.ts";

const begin = (number: number) => `retry: 1000\nid: ${number}\n\n`;

function block(number: number, session = "default"): string {
  const event = { number, type: "message", at: "2026-01-01T00:00:00Z", session, agent: null, data: {} };
  return `id: ${number}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Read so many events, then leave. */
async function read(server: FakeServer, count: number, options: EventOptions = {}): Promise<number[]> {
  const numbers: number[] = [];
  for await (const event of server.client().events(options)) if (numbers.push(event.number) === count) break;
  return numbers;
}

const resumedAfter = (server: FakeServer) => server.requests.map(({ headers }) => headers["last-event-id"]);

test("a lost connection is resumed after the last whole event", async (t) => {
  const half = block(3).slice(0, 30);
  const server = await startServer(
    t,
    eventStream([begin(0), block(1), block(2), half]),
    destroy,
    problem(503, "ended"),
    eventStream([begin(2), block(3)], { open: true }),
  );
  assert.deepEqual(await read(server, 3, { after: 0 }), [1, 2, 3]);
  assert.deepEqual(resumedAfter(server), ["0", "2", "2", "2"]);
});

test("a stream that begins now and is lost before its first event is resumed at its beginning", async (t) => {
  const server = await startServer(t, eventStream([begin(7)]), eventStream([begin(7), block(8)], { open: true }));
  assert.deepEqual(await read(server, 1), [8]);
  assert.deepEqual(resumedAfter(server), [undefined, "7"]);
});

test("events are whole wherever the bytes are cut, and whatever ends the lines", async (t) => {
  const text = begin(0) + block(1, "Zoë 東京") + block(2).replaceAll("\n", "\r\n") + block(3).replaceAll("\n", "\r") + block(4);
  const bytes = [...new TextEncoder().encode(`: comment\n\n${text}`)].map((byte) => Uint8Array.of(byte));
  const server = await startServer(t, eventStream(bytes, { open: true }));
  const sessions: unknown[] = [];
  for await (const event of server.client().events()) if (sessions.push(event.session) === 4) break;
  assert.deepEqual(sessions, ["Zoë 東京", "default", "default", "default"]);
});

test("the filters are sent, and again after a reconnect", async (t) => {
  const server = await startServer(t, eventStream([begin(0)]), eventStream([begin(0), block(1)], { open: true }));
  await read(server, 1, { session: "a b", type: ["held", "message"] });
  assert.deepEqual(
    server.requests.map(({ path }) => path),
    Array(2).fill("/api/v1/events/stream?session=a%20b&type=held&type=message"),
  );
});

test("a connection without data is lost after silenceSeconds", async (t) => {
  const server = await startServer(
    t,
    eventStream([begin(0), block(1)], { open: true }),
    eventStream([begin(1), block(2)], { open: true }),
  );
  assert.deepEqual(await read(server, 2, { silenceSeconds: 0.2 }), [1, 2]);
});

test("deleted events are an error, or are reported to onGap", async (t) => {
  const gap = 'event: gap\ndata: {"after":3,"oldest":9}\n\n';
  const server = await startServer(t, eventStream([begin(3) + gap, block(9)], { open: true }));
  await assert.rejects(read(server, 1, { after: 3 }), { name: "CircadiaError", code: "gap" });
  const gaps: unknown[] = [];
  assert.deepEqual(await read(server, 1, { after: 3, onGap: (gap) => gaps.push(gap) }), [9]);
  assert.deepEqual(gaps, [{ after: 3, oldest: 9 }]);
});

test("an error that a retry does not mend ends the iteration", async (t) => {
  const server = await startServer(t, eventStream([begin(0), block(1)]), problem(401, "unauthenticated"));
  await assert.rejects(read(server, 2), { status: 401 });
});

test("a server that was never reached is tried maxRetries times more", async (t) => {
  const server = await startServer(t, destroy);
  const events = server.client({ maxRetries: 1 }).events();
  await assert.rejects(events.next(), { code: "unreachable" });
  assert.equal(server.requests.length, 2);
});

test("an abort ends the iteration without an error: before, while waiting, while away", async (t) => {
  const server = await startServer(t, eventStream([begin(0), block(1)], { open: true }));
  assert.deepEqual(await read(server, 1, { signal: AbortSignal.abort() }), []);
  assert.equal(server.requests.length, 0);
  const abort = new AbortController();
  const numbers: number[] = [];
  for await (const event of server.client().events({ signal: abort.signal })) {
    numbers.push(event.number);
    setImmediate(() => abort.abort());
  }
  assert.deepEqual(numbers, [1]);
  const away = await startServer(t, eventStream([begin(0)]), destroy);
  const later = new AbortController();
  const ended = read(away, 1, { signal: later.signal });
  while (away.requests.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  later.abort();
  assert.deepEqual(await ended, []);
});

test("who leaves the loop closes the connection", async (t) => {
  let closed: Promise<void> | undefined;
  const server = await startServer(t, (response, request) => {
    closed = new Promise((resolve) => response.on("close", resolve));
    eventStream([begin(0), block(1)], { open: true })(response, request);
  });
  await read(server, 1);
  await closed;
});
