import assert from "node:assert/strict";
import { test } from "node:test";

import { compareTexts } from "../src/server/text-diff.ts";

test("a changed line is removed and added, and a missing newline at the end is no change", () => {
  assert.deepEqual(compareTexts("one\ntwo", "one\n2\nthree"), [
    { kind: "same", text: "one" },
    { kind: "removed", text: "two" },
    { kind: "added", text: "2" },
    { kind: "added", text: "three" },
  ]);
  assert.deepEqual(compareTexts("one", "one\ntwo").map(({ kind }) => kind), ["same", "added"]);
  assert.deepEqual(compareTexts("one", "one\n"), []);
  assert.deepEqual(compareTexts("", "one"), [{ kind: "added", text: "one" }]);
});

test("a long equal part is one line, with three lines beside each change", () => {
  const lines = Array.from({ length: 20 }, (_, index) => `line ${index}`);
  const changed = lines.with(0, "first").with(19, "last");
  const shown = compareTexts(lines.join("\n"), changed.join("\n"));
  assert.deepEqual(shown.map(({ kind }) => kind), [
    "removed", "added", "same", "same", "same", "left-out", "same", "same", "same", "removed", "added",
  ]); // prettier-ignore
  assert.equal(shown[5]?.text, "12 equal lines");
});
