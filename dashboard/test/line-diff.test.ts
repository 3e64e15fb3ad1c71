import assert from "node:assert/strict";
import { test } from "node:test";

import { diffLines } from "../src/server/line-diff.ts";

const shown = (before: string, after: string) => diffLines(before, after).map(({ text, change }) => `${{ same: " ", added: "+", removed: "-" }[change]}${text}`);

test("a diff keeps the common lines in order", () => {
  assert.deepEqual(shown("a\nb\nc\nd", "a\nx\nc\nd\ne"), [" a", "-b", "+x", " c", " d", "+e"]);
  assert.deepEqual(shown("", "a"), ["+a"]);
  assert.deepEqual(shown("a", ""), ["-a"]);
  assert.deepEqual(shown("a", "a"), [" a"]);
});

test("a diff of long texts stays small", () => {
  const long = Array.from({ length: 3000 }, (_, line) => String(line)).join("\n");
  assert.equal(diffLines(long, `${long}\nend`).length, 6001);
});
