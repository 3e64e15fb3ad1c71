import assert from "node:assert/strict";
import { test } from "node:test";

import { describeCost, describeEffect } from "../src/server/describe-pass.ts";

test("the effect and the cost of a pass are words, without what is zero", () => {
  const effects = [{ add_note: 2, retire_note: 0, demote_episode: 1, staged: 1, full: 1 }, { new_things: 3 }, {}];
  assert.deepEqual(effects.map((counts) => describeEffect({ counts })), [
    "all notes reviewed, 2 notes added, 1 episode demoted, 1 waiting for a person",
    "3 new things",
    "no change",
  ]);
  const costs = [{ calls: 0, tokens: 0, usd: 0, seconds: 0 }, { calls: 2, tokens: 1234, usd: 0.0123, seconds: 3 }];
  assert.deepEqual(costs.map(describeCost), ["no model call", "$0.012, 1,234 tokens, 2 calls"]);
});
