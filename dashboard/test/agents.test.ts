import assert from "node:assert/strict";
import { test } from "node:test";

import { mergeAgents, touchedAgents } from "../src/server/touched-agents.ts";
import { findServerProblems } from "../src/server/wellness.ts";

const DAY = Date.parse("2026-01-02T00:00:00Z");
const at = (hour: number) => new Date(DAY + hour * 3_600_000).toISOString();
const event = (type: string, hour: number, data: object = {}, agent = "ann", session = "default") =>
  ({ number: hour, type, at: at(hour), session, agent, data }) as never;
const agent = (reference: string, sleeping: boolean) => ({ reference, sleeping }) as never;

test("only the agents that an event concerns are read again, and come in, change or go", () => {
  const batch = [event("held", 1), event("message", 1, {}, "bob"), event("agent_deleted", 1, {}, "cyd", "team")];
  assert.deepEqual([...touchedAgents(batch)], ["ann", "team:cyd"]);
  const merged = mergeAgents([agent("ann", false), agent("team:cyd", false), agent("bob", true)], ["ann", "team:cyd", "dan"], [agent("ann", true), agent("dan", true)]);
  assert.deepEqual(merged, [agent("ann", true), agent("bob", true), agent("dan", true)]);
});

test("the server itself is well unless it cannot be reached, is not ready, or does not say how it is", () => {
  const well = { isConnected: true, readiness: "", isUnknown: false };
  assert.deepEqual(findServerProblems(well), []);
  assert.equal(findServerProblems({ ...well, isConnected: false }).length, 1);
  assert.match(findServerProblems({ ...well, readiness: "the database does not answer" })[0]!, /not ready: the database does not answer/);
  assert.match(findServerProblems({ ...well, isUnknown: true })[0]!, /does not say how it is/);
  assert.equal(findServerProblems({ ...well, isConnected: false, isUnknown: true }).length, 1);
});
