import assert from "node:assert/strict";
import { test } from "node:test";

import { describeEntry } from "../src/parts/describe-schedule.ts";

const routine = { name: "a", every_seconds: 3600 };
const blackout = { start_time: "22:00", end_time: "06:00", weekdays: ["mon"] };

test("what a person can change in an entry changes its words", () => {
  for (const change of [{ anchor: "2026-01-01T00:00:00Z" }, { offset_seconds: 60 }, { every_seconds: 7200 }, { enabled: false }]) {
    assert.notEqual(describeEntry({ ...routine, ...change }), describeEntry(routine), JSON.stringify(change));
  }
  assert.notEqual(describeEntry({ ...blackout, label: "nights" }), describeEntry(blackout));
});
