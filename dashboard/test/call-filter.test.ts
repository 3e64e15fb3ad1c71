import assert from "node:assert/strict";
import { test } from "node:test";

import { callsAddress, filterOfUsage } from "../src/server/call-filter.ts";

test("a figure of the usage report leads to the calls behind it", () => {
  assert.deepEqual(filterOfUsage("agent", "ann"), { session: "default", agent: "ann" });
  assert.deepEqual(filterOfUsage("agent", "team:ann"), { session: "team", agent: "ann" });
  assert.deepEqual(filterOfUsage("agent", "sleep support-eve"), { tier: "sleep", agent: "support-eve" });
  assert.deepEqual(filterOfUsage("day", "2026-12-31"), { since: "2026-12-31", until: "2027-01-01" });
  assert.deepEqual(filterOfUsage("model", "gpt-4o"), { model: "gpt-4o" });
  assert.equal(filterOfUsage("end_user", ""), undefined);
});

test("the address of calls has each filter that is stated", () => {
  assert.equal(callsAddress({ agent: "a b", status: "failed", model: "" }), "/calls?agent=a+b&status=failed");
});
