import assert from "node:assert/strict";
import { test } from "node:test";

import type { ScheduleView } from "@circadia/client";

import { changeDraft } from "../src/server/draft.ts";
import { newName, problemsOf, scheduleBody, versionOf } from "../src/server/schedule-draft.ts";

const blackout = { type: "recurring", label: "nights", start_time: "22:00", end_time: "06:00", weekdays: ["mon"], start: null, end: null };
const schedule = {
  etag: "1",
  zone: "UTC",
  routines: [
    { name: "a", cron: "0 3 * * *", zone: "UTC", next_at: null, deferred_from: null, last_at: null, skips: 0, missed: 2 },
    { name: "b", cron: "0 4 * * *", zone: "UTC", next_at: null, deferred_from: null, last_at: null, skips: 0, missed: 0 },
  ],
  blackouts: [blackout, blackout],
} as unknown as ScheduleView;

test("a save sends the changed kinds only, each whole and without the server's state", () => {
  const server = versionOf(schedule);
  assert.equal(Object.keys(server.values).length, 5, "two equal blackouts are two");
  const name = newName("routine", server.values);
  const draft = changeDraft(null, server, { "routine a": undefined, [name]: { name: "c", cron: "0 5 * * *" } })!;
  assert.deepEqual(scheduleBody(draft), { routines: [{ name: "b", cron: "0 4 * * *" }, { name: "c", cron: "0 5 * * *" }] });
});

test("the server's errors are at the entry and field that they name", () => {
  const { values } = versionOf(schedule);
  const errors = [
    { path: "body.routines.1.every_seconds", message: "too short" },
    { path: "body.blackouts.0", message: "no length" },
    { path: "body", message: "too long" },
  ];
  const problems = problemsOf(values, "detail", errors);
  assert.deepEqual(problems.map(({ entry, field }) => [entry.split(" ")[0], field]), [["routine", "every_seconds"], ["blackout", ""], ["", ""]]);
  assert.equal(problems[0]!.entry, "routine b");
  assert.deepEqual(problemsOf(values, "two have one name", []), [{ entry: "", field: "", message: "two have one name" }]);
});
