import assert from "node:assert/strict";
import { test } from "node:test";

import { narrowOffset } from "../src/server/clock.ts";

/** A response of a server whose clock is ahead by `offset`; its date is cut to whole seconds. */
function sample(offset: number, sentAt: number, milliseconds: number) {
  const date = Math.floor((sentAt + milliseconds / 2 + offset) / 1000) * 1000;
  return { date, sentAt, receivedAt: sentAt + milliseconds };
}

test("the offset of the server's clock is known better with each response", () => {
  const offset = -3_600_250;
  let range = narrowOffset(undefined, sample(offset, 1_000_100, 20));
  assert.ok(range.least <= offset && offset <= range.most);
  for (let n = 1; n <= 50; n++) range = narrowOffset(range, sample(offset, 1_000_100 + n * 1_970, 20));
  assert.ok(range.least <= offset && offset <= range.most);
  assert.ok(range.most - range.least < 120, `${range.most - range.least} ms`);
});

test("a clock that was set is followed", () => {
  const before = narrowOffset(undefined, sample(0, 1_000_000, 20));
  const after = narrowOffset(before, sample(90_000, 1_010_000, 20));
  assert.ok(after.least <= 90_000 && 90_000 <= after.most);
});
