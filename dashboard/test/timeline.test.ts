import assert from "node:assert/strict";
import { test } from "node:test";

import { describeSpan, drawLane, joinLanes, orderLanes, spanAt, splitToday, sumLane, ticksOf, windowOf } from "../src/server/timeline.ts";

const DAY = Date.parse("2026-01-02T00:00:00Z");
const HOUR = 3_600_000;
const at = (hour: number) => new Date(DAY + hour * HOUR).toISOString();
const span = (kind: string, from: number, to: number | null, more: object = {}) =>
  ({ kind, started_at: at(from), ended_at: to === null ? null : at(to), by: "ann", reason: "blocker", outcome: "", failed: false, ref: "", ...more }) as never;
const window = { since: DAY, until: DAY + 24 * HOUR };
const now = DAY + 12 * HOUR;

test("a lane sums up what is in its window, also of what began before it and of what lasts", () => {
  const spans = [
    span("asleep", -5, 2), span("awake", 2, 4), span("held", -1, 1), span("pulse", 2, 3, { failed: true }), span("pulse", 3, 4),
    span("wake", 2, 2), span("refusal", 5, 5), span("asleep", 4, null),
  ]; // prettier-ignore
  assert.deepEqual(sumLane(spans, window, now), {
    asleep: 10 * 3600, awake: 2 * 3600, held: 3600, heldCalls: 1, pulses: 2, failed: 1, wakes: 1, refusals: 1,
  }); // prettier-ignore
});

test("any number of spans is drawn as few parts: those that are closer than half a pixel are one", () => {
  const many = Array.from({ length: 5000 }, (_, index) => span("pulse", 1 + index / 5000, 1 + (index + 0.5) / 5000));
  const { paths } = drawLane([...many, span("pulse", 6, 7)], window, now, 240);
  assert.equal(paths.pulse.split("M").length - 1, 2);
  assert.match(paths.pulse, /^M10\.0 0h10\.0v1/);
  assert.equal(paths.asleep, "");
});

test("a span that lasts is drawn up to now, and marks of one pixel are one", () => {
  const { paths, marks } = drawLane([span("asleep", 6, null), span("wake", 3, 3), span("wake", 3, 3), span("refusal", 3, 3)], window, now, 240);
  assert.equal(paths.asleep, "M60.0 0h60.0v1H60.0z");
  assert.deepEqual(marks, [{ x: 30, isRefusal: false }, { x: 30, isRefusal: true }]);
});

test("the topmost span is found at a time, and a mark beside it", () => {
  const spans = [span("pulse", 2, 3), span("awake", 2, 4), span("refusal", 6, 6, { outcome: "cooldown_seconds" }), span("asleep", 4, null)];
  assert.equal(describeSpan(spanAt(spans, DAY + 2.5 * HOUR, now, 0)!, now), "pulse running, 1 h, by ann: blocker");
  assert.equal(describeSpan(spanAt(spans, DAY + 3.5 * HOUR, now, 0)!, now), "awake for 2 h, by ann (blocker)");
  assert.equal(describeSpan(spanAt(spans, DAY + 6.1 * HOUR, now, 0.2 * HOUR)!, now), "wake refused, by ann: blocker (cooldown_seconds)");
  assert.equal(spanAt(spans, DAY + 13 * HOUR, now, 0), undefined);
});

test("an agent whose spans go on in the next page has one lane", () => {
  const lane = (reference: string, is_continued: boolean, spans: unknown[]) => ({ reference, is_continued, spans }) as never;
  const joined = joinLanes([lane("ann", true, [1]), lane("ann", false, [2]), lane("bob", false, [3])]);
  assert.deepEqual(joined.map(({ reference, spans }) => [reference, spans]), [["ann", [1, 2]], ["bob", [3]]]);
});

test("lanes are ordered by cost or by time asleep", () => {
  const lane = (reference: string, asleep: number) => ({ lane: { reference }, sum: { asleep } }) as never;
  const lanes = [lane("ann", 1), lane("bob", 3), lane("eve", 2)];
  const names = (order: "by cost" | "longest asleep") => orderLanes(lanes, order, new Map([["eve", 9], ["ann", 1]])).map(({ lane }) => lane.reference);
  assert.deepEqual(names("longest asleep"), ["bob", "eve", "ann"]);
  assert.deepEqual(names("by cost"), ["eve", "ann", "bob"]);
});

test("the scale has hours of a day, and days of a week", () => {
  assert.equal(windowOf("day", now).since, DAY);
  const labels = (range: "day" | "7 days" | "6 h", width: number) => ticksOf(windowOf(range, now), width).map(({ label }) => label);
  assert.deepEqual(labels("day", 400), ["00:00", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "24:00"]);
  assert.deepEqual(labels("day", 200), ["00:00", "06:00", "12:00", "18:00", "24:00"]);
  assert.equal(labels("7 days", 800).length, 7);
  assert.equal(labels("6 h", 400).length, 7);
  for (const range of ["day", "7 days", "6 h"] as const) {
    for (let width = 120; width < 2560; width += 7) {
      const places = ticksOf(windowOf(range, now), width).map(({ x }) => x);
      assert.ok(places.every((x, index) => index === 0 || x - places[index - 1]! >= 40), `${range} at ${width} pixels: ${places}`);
    }
  }
});

test("a figure has the mean of the days before, and today's quarters", () => {
  const sums = [-40, -30, -16, 1, 2].map((hour) => ({ at: at(hour), asleep_seconds: 2 })) as never;
  assert.deepEqual(splitToday(sums, (sum) => sum.asleep_seconds, DAY), { mean: 3, values: [2, 2] });
});
