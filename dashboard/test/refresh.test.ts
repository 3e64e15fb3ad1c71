import assert from "node:assert/strict";
import { test } from "node:test";

import { Refresher, topicsOf } from "../src/server/refresh.ts";

const event = (type: "held" | "wake" | "message") => ({ number: 1, type, at: "", session: null, agent: null, data: {} }) as never;

test("events name what they may have changed, each once", () => {
  assert.deepEqual([...topicsOf([event("held"), event("held"), event("wake")])].sort(), ["agent", "holds", "overview", "wakes"]);
});

test("a key is refreshed at once, then once more for all later marks, and never twice at the same time", async () => {
  let running = 0;
  let most = 0;
  const refreshed: string[] = [];
  const refresher = new Refresher<string>(async (key) => {
    refreshed.push(key);
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running--;
  }, 20);
  for (let n = 0; n < 100; n++) refresher.mark("holds");
  assert.deepEqual(refreshed, ["holds"]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(refreshed, ["holds", "holds"]);
  assert.equal(most, 1);
});

test("a refresh that fails stops nothing", async () => {
  let count = 0;
  const refresher = new Refresher<string>(async () => {
    if (++count === 1) throw new Error("away");
  }, 1);
  refresher.mark("wakes");
  refresher.mark("wakes");
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(count, 2);
});
