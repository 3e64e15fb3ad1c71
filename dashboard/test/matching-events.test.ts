import assert from "node:assert/strict";
import { test } from "node:test";

import { addMatching } from "../src/server/matching-events.ts";

const event = (number: number, type = "message", agent = "ann", session = "default") => ({ number, type, agent, session }) as never;
const numbers = (events: readonly { number: number }[]) => events.map(({ number }) => number);

test("a list takes the new events that match, newest first, each once", () => {
  const known = [event(7), event(5)];
  const batch = [event(6), event(7), event(8), event(9, "wake"), event(10, "message", "bob"), event(11, "message", "ann", "team"), event(12)];
  const filter = { session: "default", agent: "ann", types: ["message"] } as const;
  assert.deepEqual(numbers(addMatching(known, batch, filter)), [12, 8, 7, 5]);
  assert.deepEqual(numbers(addMatching([], batch, {})), [12, 11, 10, 9, 8, 7, 6]);
});

test("a row stays, however many other events come, and 2,000 rows are kept", () => {
  let rows: readonly { number: number }[] = [event(1)];
  for (let batch = 1; batch <= 12; batch++) {
    const others = Array.from({ length: 250 }, (_, index) => event(batch * 1000 + index, "wake"));
    rows = addMatching(rows as never, others, { types: ["message"] });
  }
  assert.deepEqual(numbers(rows), [1]);
  const many = Array.from({ length: 3000 }, (_, index) => event(2 + index));
  assert.deepEqual([addMatching(rows as never, many, {}).length, addMatching(rows as never, many, {})[0]?.number], [2000, 3001]);
});
