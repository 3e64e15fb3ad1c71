import assert from "node:assert/strict";
import { test } from "node:test";

import { describePair, layOutWakes } from "../src/server/wake-graph.ts";

const pair = (from: string, to: string, decisions: Record<string, number>) =>
  ({ from, to, decisions, total: Object.values(decisions).reduce((sum, count) => sum + count, 0) }) as never;

test("the graph has the busiest agents on a circle, and the arrows between them", () => {
  const pairs = [pair("ann", "bob", { admitted: 8, refused: 1 }), pair("bob", "ann", { admitted: 1 }), pair("ann", "ann", { deferred: 2 }), pair("cyd", "dan", { admitted: 1 })];
  const { agents, arrows, agentCount } = layOutWakes(pairs, 100, 2);
  assert.deepEqual(agents.map(({ name, asks, isAsked }) => [name, asks, isAsked]), [["ann", 11, 3], ["bob", 1, 9]]);
  assert.deepEqual(agents.map(({ x, y }) => Math.round(Math.hypot(x, y))), [100, 100]);
  assert.equal(agentCount, 4);
  assert.deepEqual(arrows.map(({ refused }) => refused), [1, 0, 0]);
  const [there, back, self] = arrows.map(({ width }) => width);
  assert.ok(there! > self! && self! > back!);
  assert.ok(Math.hypot(arrows[0]!.middle.x - arrows[1]!.middle.x, arrows[0]!.middle.y - arrows[1]!.middle.y) > 10, "both directions are seen");
  assert.ok(arrows.every(({ line, head }) => !`${line}${head}`.includes("NaN")));
});

test("the numbers of a pair are said in words", () => {
  assert.equal(describePair(pair("ann", "bob", { admitted: 2, refused: 1 })), "ann asks bob: 3 requests, 2 admitted, 1 refused");
});
