import assert from "node:assert/strict";
import { test } from "node:test";

import { buildAgentDay } from "../src/server/agent-day.ts";
import { mergeAgents, touchedAgents } from "../src/server/touched-agents.ts";
import { findProblems } from "../src/server/wellness.ts";

const DAY = Date.parse("2026-01-02T00:00:00Z");
const at = (hour: number) => new Date(DAY + hour * 3_600_000).toISOString();
const event = (type: string, hour: number, data: object = {}, agent = "ann", session = "default") =>
  ({ number: hour, type, at: at(hour), session, agent, data }) as never;
const agent = (reference: string, sleeping: boolean) => ({ reference, sleeping }) as never;

test("the day has the sleep since midnight, the held calls and the wakes", () => {
  const events = [
    event("sleep_start", 10),
    event("wake", 9, { decision: "refused", from: "bob", rule: "cooldown_seconds" }),
    event("admitted", 8, { hold: "h1", what: "POST /v1" }),
    event("sleep_stop", 8),
    event("held", 7, { hold: "h1", what: "POST /v1" }),
    event("held", -2, { hold: "h0" }),
  ];
  const day = buildAgentDay({ events, pulses: [], isAsleep: true, since: at(10), dayStart: DAY, now: DAY + 12 * 3_600_000 });
  const hours = (spans: { from: number; to: number }[]) => spans.map(({ from, to }) => [(from - DAY) / 3_600_000, (to - DAY) / 3_600_000]);
  assert.deepEqual(hours(day.asleep), [[0, 8], [10, 12]]);
  assert.deepEqual(hours(day.held), [[7, 8]]);
  assert.deepEqual(day.wakes.map(({ title, isAdmitted }) => [title, isAdmitted]), [["wake refused, from bob (cooldown_seconds)", false]]);
});

test("an agent that has not moved today is asleep or awake all day", () => {
  const facts = { events: [], pulses: [], since: at(-30), dayStart: DAY, now: DAY + 3_600_000 };
  assert.deepEqual(buildAgentDay({ ...facts, isAsleep: true }).asleep.map(({ from, to }) => to - from), [3_600_000]);
  assert.deepEqual(buildAgentDay({ ...facts, isAsleep: false }).asleep, []);
});

test("a pulse that failed, timed out or was interrupted is told from one that ended well", () => {
  const pulse = (status: string) => ({ status, started_at: at(1), ended_at: at(2), reason: "", kind: "wake" }) as never;
  const pulses = ["succeeded", "failed", "timed_out", "interrupted", "cancelled"].map(pulse);
  const day = buildAgentDay({ events: [], pulses, isAsleep: false, since: at(0), dayStart: DAY, now: DAY + 3 * 3_600_000 });
  assert.deepEqual(day.pulses.map(({ hasFailed }) => hasFailed), [false, true, true, true, false]);
});

test("only the agents that an event concerns are read again, and come in, change or go", () => {
  const batch = [event("held", 1), event("message", 1, {}, "bob"), event("agent_deleted", 1, {}, "cyd", "team")];
  assert.deepEqual([...touchedAgents(batch)], ["ann", "team:cyd"]);
  const merged = mergeAgents([agent("ann", false), agent("team:cyd", false), agent("bob", true)], ["ann", "team:cyd", "dan"], [agent("ann", true), agent("dan", true)]);
  assert.deepEqual(merged, [agent("ann", true), agent("bob", true), agent("dan", true)]);
});

test("all is well unless the server cannot be reached, is not ready, or names a problem", () => {
  const overview = { problems: ["No worker runs"] } as never;
  const well = { isConnected: true, readiness: "", overview: { problems: [] } as never, isUnknown: false };
  assert.deepEqual(findProblems(well), []);
  assert.equal(findProblems({ ...well, isConnected: false }).length, 1);
  assert.match(findProblems({ ...well, readiness: "the database does not answer" })[0]!, /not ready: the database does not answer/);
  assert.deepEqual(findProblems({ ...well, overview }), ["No worker runs"]);
  assert.match(findProblems({ ...well, isUnknown: true })[0]!, /does not say how it is/);
  assert.equal(findProblems({ ...well, isConnected: false, isUnknown: true }).length, 1);
});
