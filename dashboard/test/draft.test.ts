import assert from "node:assert/strict";
import { test } from "node:test";

import { changeDraft, compareVersions, dropChange, rebaseDraft, valuesOf } from "../src/server/draft.ts";

const before = { etag: "1", values: { calls: 5, tokens: null, models: ["a"] } };
const after = { etag: "2", values: { calls: 11, tokens: null, models: ["a", "b"] } };

test("a draft keeps what differs, and is none once nothing does", () => {
  const draft = changeDraft(null, before, { calls: 7 })!;
  assert.deepEqual(valuesOf(draft), { calls: 7, tokens: null, models: ["a"] });
  assert.equal(changeDraft(draft, before, { calls: 5 }), null);
});

test("a draft keeps the version with which it was begun", () => {
  const draft = changeDraft(changeDraft(null, before, { calls: 7 }), after, { tokens: 9 })!;
  assert.equal(draft.base, before);
  assert.deepEqual(draft.changes, { calls: 7, tokens: 9 });
});

test("versions are compared name by name, and only after the server's has changed", () => {
  const draft = changeDraft(null, before, { calls: 7, tokens: 9 })!;
  assert.deepEqual(compareVersions(draft, { ...before, etag: "other settings of the same agent" }), []);
  assert.deepEqual(compareVersions(draft, after), [
    { name: "calls", before: 5, theirs: 11, mine: 7, isConflict: true },
    { name: "tokens", before: null, theirs: null, mine: 9, isConflict: false },
    { name: "models", before: ["a"], theirs: ["a", "b"], mine: ["a"], isConflict: false },
  ]);
});

test("the same change on both sides is no conflict, and nothing is left to save", () => {
  const draft = changeDraft(null, before, { calls: 11 })!;
  assert.equal(compareVersions(draft, after).some(({ isConflict }) => isConflict), false);
  assert.equal(rebaseDraft(draft, after), null);
});

test("on a newer version one's own changes stay and the others' are taken over", () => {
  const draft = rebaseDraft(changeDraft(null, before, { calls: 7, tokens: 9 })!, after)!;
  assert.deepEqual(valuesOf(draft), { calls: 7, tokens: 9, models: ["a", "b"] });
  assert.deepEqual(valuesOf(dropChange(draft, "calls")!), { calls: 11, tokens: 9, models: ["a", "b"] });
});

test("what one side removes and the other changes is a conflict", () => {
  const draft = changeDraft(null, before, { models: undefined })!;
  assert.deepEqual(valuesOf(draft), { calls: 5, tokens: null });
  assert.equal(compareVersions(draft, after).find(({ name }) => name === "models")?.isConflict, true);
});
