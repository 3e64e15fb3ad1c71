import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { QueryClient, QueryObserver } from "@tanstack/react-query";

import { Refresher, refreshTopic, topicsOf } from "../src/server/refresh.ts";

const event = (type: "held" | "session_closed" | "wake" | "message", agent: string | null = null, session = "default") =>
  ({ number: 1, type, at: "", session, agent, data: {} }) as never;

/** Let all promises settle that need no time. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

async function pass(milliseconds: number): Promise<void> {
  mock.timers.tick(milliseconds);
  await settle();
}

test("events name what they may have changed, each once, and of the agents only their own", () => {
  const batch = [event("held", "ann"), event("held", "ann"), event("wake", "bob", "team"), event("session_closed")];
  assert.deepEqual([...topicsOf(batch)].sort(), [
    "agent", "agent ann", "agent team:bob", "calls", "holds", "inbox", "overview", "sessions", "threads", "timeline", "wakes",
  ]); // prettier-ignore
});

test("a key is refreshed at once, then once more for all later marks, and never twice at the same time", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const answers: (() => void)[] = [];
  const refresher = new Refresher<string>(() => new Promise<void>((resolve) => answers.push(resolve)), 20);
  for (let n = 0; n < 100; n++) refresher.mark("holds");
  assert.equal(answers.length, 1);
  await pass(1000);
  assert.equal(answers.length, 1, "the first is on its way");
  answers[0]!();
  await pass(0);
  assert.equal(answers.length, 2);
  answers[1]!();
  await pass(1000);
  assert.equal(answers.length, 2);
  mock.timers.reset();
});

test("a mark outlives a refresh that fails: it is refreshed until it succeeds, ever more rarely", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const times: number[] = [];
  let now = 0;
  const refresher = new Refresher<string>(async () => {
    times.push(now);
    if (times.length < 4) throw new Error("away");
  }, 100);
  refresher.mark("holds");
  await settle();
  while (now < 5000) {
    now += 100;
    await pass(100);
  }
  assert.deepEqual(times, [0, 100, 300, 700]);
  mock.timers.reset();
});

/** A client with one query on a page, whose answers the test gives one by one. */
function showQuery() {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const calls: { answer: (data: number) => void; fail: (error: Error) => void }[] = [];
  const queryFn = () => new Promise<number>((answer, fail) => calls.push({ answer, fail }));
  const stop = new QueryObserver(client, { queryKey: ["holds", 1000], queryFn }).subscribe(() => {});
  return { client, calls, data: () => client.getQueryData(["holds", 1000]), stop: () => (stop(), client.clear()) };
}

test("an answer that was on its way when an event came is read again", async () => {
  const { client, calls, data, stop } = showQuery();
  const refreshing = refreshTopic(client, "holds");
  calls[0]!.answer(0);
  await settle();
  assert.equal(calls.length, 2);
  calls[1]!.answer(1);
  await refreshing;
  assert.equal(data(), 1);
  stop();
});

test("a topic whose query fails keeps its mark, unless the server refuses the query", async () => {
  const { client, calls, stop } = showQuery();
  calls[0]!.answer(0);
  await settle();
  const failing = refreshTopic(client, "holds");
  await settle();
  calls[1]!.fail(Object.assign(new Error("the database does not answer"), { status: 503 }));
  await assert.rejects(failing, /the database does not answer/);
  const refused = refreshTopic(client, "holds");
  await settle();
  calls[2]!.fail(Object.assign(new Error("no such agent"), { status: 404 }));
  await refused;
  stop();
});
