import assert from "node:assert/strict";
import { test } from "node:test";

import { type FollowEvents, LiveEvents } from "../src/server/live-events.ts";

const event = (number: number) => ({ number, type: "message", at: "2026-01-01T00:00:00Z", session: null, agent: null, data: {} }) as const;

test("a burst of events comes in one batch, in order, and the newest are kept", async () => {
  const leaving = new AbortController();
  const follow: FollowEvents = async function* ({ after, onConnection, signal }) {
    assert.equal(after, 7);
    onConnection?.(true);
    for (let n = 8; n < 3008; n++) yield event(n);
    await new Promise((resolve) => signal?.addEventListener("abort", resolve));
  };
  const live = new LiveEvents(follow, assert.fail, assert.fail);
  const batches: number[] = [];
  const done = new Promise<void>((resolve) => live.listen((batch) => (batches.push(batch.length), resolve())));
  const running = live.run(7, leaving.signal);
  await done;
  assert.deepEqual(batches, [3000]);
  assert.equal(live.recent.length, 2000);
  assert.equal(live.recent.at(-1)?.number, 3007);
  assert.equal(live.status, "live");
  leaving.abort();
  await running;
});

test("a change after a rest comes at once, and those behind it four times a second", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const leaving = new AbortController();
  const numbers = [8, 9, 10, 11];
  let come = () => {};
  const follow: FollowEvents = async function* ({ signal }) {
    signal?.addEventListener("abort", () => come());
    for (const number of numbers) {
      yield event(number);
      await new Promise<void>((resolve) => (come = resolve));
    }
  };
  const live = new LiveEvents(follow, assert.fail, assert.fail);
  const batches: number[][] = [];
  live.listen((batch) => batches.push(batch.map(({ number }) => number)));
  const running = live.run(7, leaving.signal);
  const wait = async (milliseconds: number) => {
    await new Promise(setImmediate);
    t.mock.timers.tick(milliseconds);
  };
  await wait(20);
  assert.deepEqual(batches, [[8]]);
  for (const _ of [9, 10]) {
    come();
    await wait(20);
  }
  assert.deepEqual(batches, [[8]]);
  await wait(210);
  assert.deepEqual(batches, [[8], [9, 10]]);
  await wait(250);
  come();
  await wait(20);
  assert.deepEqual(batches, [[8], [9, 10], [11]]);
  leaving.abort();
  come();
  await running;
});

test("after an error the stream goes on behind the last event, and the page learns that it is lost", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const leaving = new AbortController();
  const begun: (number | undefined)[] = [];
  const follow: FollowEvents = async function* ({ after }) {
    begun.push(after);
    if (begun.length === 2) leaving.abort();
    else {
      yield event(8);
      throw new Error("away");
    }
  };
  const errors: unknown[] = [];
  const live = new LiveEvents(follow, (error) => errors.push(error), assert.fail);
  const statuses: string[] = [];
  live.watch(() => {
    statuses.push(live.status);
    queueMicrotask(() => queueMicrotask(() => t.mock.timers.tick(2000)));
  });
  await live.run(7, leaving.signal);
  assert.deepEqual(begun, [7, 8]);
  assert.equal(errors.length, 1);
  assert.ok(statuses.includes("reconnecting"));
});

test("the page's answers are in doubt each time that the stream is back, and when events were deleted unread", async () => {
  const leaving = new AbortController();
  const doubts: string[] = [];
  const follow: FollowEvents = async function* ({ onConnection, onGap }) {
    const steps: [string, () => void][] = [
      ["connected", () => onConnection?.(true)],
      ["lost", () => onConnection?.(false)],
      ["back", () => onConnection?.(true)],
      ["deleted", () => onGap?.({ after: 7, oldest: 9 })],
    ];
    for (const [step, take] of steps) {
      doing = step;
      take();
    }
    leaving.abort();
  };
  let doing = "";
  await new LiveEvents(follow, assert.fail, () => doubts.push(doing)).run(7, leaving.signal);
  assert.deepEqual(doubts, ["back", "deleted"]);
});
