import assert from "node:assert/strict";
import { test } from "node:test";

import { createCircadia, type EventOptions } from "@circadia/client";

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

test("the pause before a reconnect doubles with each failure, and is short again after an event", async (t) => {
  const pauses: number[] = [];
  const setTimeout = globalThis.setTimeout;
  t.mock.method(globalThis, "setTimeout", (call: () => void, milliseconds: number, ...rest: unknown[]) => {
    const isPause = !Number.isInteger(milliseconds); // it is spread at random, unlike the limits of a connection
    if (isPause) pauses.push(milliseconds);
    return setTimeout(call, isPause ? 0 : milliseconds, ...rest);
  });
  const server = await startServer(
    t,
    eventStream([begin(0), block(1)]),
    destroy,
    problem(429, "limit_reached"),
    eventStream([begin(1), block(2)]),
    eventStream([begin(2), block(3)], { open: true }),
  );
  assert.deepEqual(await read(server, 3, { after: 0 }), [1, 2, 3]);
  assert.equal(pauses.length, 4);
  for (const [at, longest] of [200, 400, 800, 200].entries()) {
    assert.ok(longest / 2 <= pauses[at]! && pauses[at]! <= longest, `${pauses}`);
  }
});

test("the caller learns when the connection is lost and back", async (t) => {
  const server = await startServer(
    t,
    eventStream([begin(0), block(1)]),
    problem(503, "ended"),
    eventStream([begin(1), block(2)], { open: true }),
  );
  const states: boolean[] = [];
  assert.deepEqual(await read(server, 2, { after: 0, onConnection: (isConnected) => states.push(isConnected) }), [1, 2]);
  assert.deepEqual(states, [true, false, false, true]);
});

test("events are whole wherever the bytes are cut, and whatever ends the lines", async () => {
  const encoder = new TextEncoder();
  const [second, third] = [block(2).replaceAll("\n", "\r\n"), block(3).replaceAll("\n", "\r")];
  const lives = [`: comment\n\n${begin(0)}${block(1, "Zoë 東京")}${second}${third}id: 4\r\n`, begin(3) + block(4)];
  const resumed: unknown[] = [];
  const fetch = async (input: RequestInfo | URL) => {
    resumed.push((input as Request).headers.get("last-event-id"));
    const bytes = encoder.encode(lives.shift());
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => bytes.forEach((byte) => controller.enqueue(Uint8Array.of(byte))),
      pull: (controller) => controller.close(),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const events: unknown[] = [];
  for await (const event of createCircadia({ baseUrl: "http://fake", token: "secret", fetch }).events()) {
    if (events.push([event.number, event.session]) === 4) break;
  }
  assert.deepEqual(events, [[1, "Zoë 東京"], [2, "default"], [3, "default"], [4, "default"]]);
  assert.deepEqual(resumed, [null, "3"]);
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
  assert.deepEqual(await read(server, 2, { silenceSeconds: 1 }), [1, 2]);
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

test("an abort ends the iteration without an error: before, during and after a connection", async (t) => {
  const server = await startServer(t, eventStream([begin(0) + block(1) + block(2)], { open: true }));
  assert.deepEqual(await read(server, 1, { signal: AbortSignal.abort() }), []);
  assert.equal(server.requests.length, 0);
  const abort = new AbortController();
  const numbers: number[] = [];
  for await (const event of server.client().events({ signal: abort.signal })) {
    numbers.push(event.number);
    abort.abort();
  }
  assert.deepEqual(numbers, [1]);
  const waits = new AbortController();
  const events = server.client().events({ signal: waits.signal });
  assert.deepEqual([(await events.next()).value?.number, (await events.next()).value?.number], [1, 2]);
  const next = events.next();
  waits.abort();
  assert.equal((await next).done, true);
  const silent = await startServer(t, () => {});
  const away = await startServer(t, eventStream([begin(0)]), destroy);
  for (const [server, requests] of [[silent, 1], [away, 3]] as const) {
    const abort = new AbortController();
    const ended = read(server, 1, { signal: abort.signal });
    while (server.requests.length < requests) await new Promise((resolve) => setTimeout(resolve, 5));
    abort.abort();
    assert.deepEqual(await ended, []);
  }
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
