import assert from "node:assert/strict";
import { test } from "node:test";

import { formatAgo, formatAmount, formatCount, formatCsv, formatDuration, formatUsd } from "../src/server/format.ts";

test("durations have their two largest units", () => {
  const durations = [0, 59.9, 60, 3_661, 90_000, -5].map(formatDuration);
  assert.deepEqual(durations, ["0 s", "59 s", "1 min", "1 h 1 min", "1 d 1 h", "0 s"]);
  assert.deepEqual([0, 1_400, 61_000, 7_200_000].map(formatAgo), ["now", "now", "1 min ago", "2 h ago"]);
});

test("small amounts of money keep two digits that are not zero", () => {
  assert.deepEqual([0, 12.345, 1234.5, 0.0123, 0.000123].map(formatUsd), ["$0", "$12.35", "$1,234.50", "$0.012", "$0.00012"]);
  assert.deepEqual([0, 99_999, 1_234_567].map(formatCount), ["0", "99,999", "1.2M"]);
});

test("a figure has its unit in the singular or the plural, and money its sign", () => {
  assert.deepEqual(
    [formatAmount(1, null, "dead letters"), formatAmount(2, null, "dead letters"), formatAmount(1, null, "failed calls in 5 minutes")],
    ["1 dead letter", "2 dead letters", "1 failed call in 5 minutes"],
  );
  assert.deepEqual([formatAmount(1, 1, "calls"), formatAmount(0.5, 2, "US dollars")], ["1 of 1 calls", "$0.50 of $2.00 US dollars"]);
  assert.equal(formatUsd(-0.25), "−$0.25");
});

test("a cell of CSV is quoted where it must be, and never a formula", () => {
  const rows = [["=1+1", 'say "a,b"', -3], ["line\nbreak", "@x", "plain"]];
  assert.equal(formatCsv(rows), `'=1+1,"say ""a,b""",-3\r\n"line\nbreak",'@x,plain\r\n`);
});
