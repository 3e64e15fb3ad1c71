import assert from "node:assert/strict";
import { test } from "node:test";

import { findMentions } from "../src/server/mentions.ts";

test("a typed name of a participant mentions, and nothing that only resembles one", () => {
  const participants = ["ann", "anna", "bob-2", "c.d"];
  assert.deepEqual(findMentions("@ann, please ask @bob-2.", participants), ["ann", "bob-2"]);
  assert.deepEqual(findMentions("(@anna) @c.d!", participants), ["anna", "c.d"]);
  assert.deepEqual(findMentions("mail ann@anna or @bob or @ann-x or @annaline", participants), []);
  assert.deepEqual(findMentions("@ann @ann", participants), ["ann"]);
});
