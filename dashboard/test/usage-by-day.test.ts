import assert from "node:assert/strict";
import { test } from "node:test";

import type { GroupUsage } from "@circadia/client";

import { stackByDay } from "../src/server/usage-by-day.ts";

const line = (day: string, name: string, calls: number) => ({ keys: [day, name], calls }) as unknown as GroupUsage;

test("each day has all groups in one order, the largest first, and days without calls", () => {
  const bars = stackByDay([line("2026-01-01", "sleep", 1), line("2026-01-03", "hot", 5)], ["2026-01-01", "2026-01-02", "2026-01-03"], ({ calls }) => calls);
  assert.deepEqual(bars.map(({ parts }) => parts.map(({ name, value }) => `${name} ${value}`)), [["hot 0", "sleep 1"], ["hot 0", "sleep 0"], ["hot 5", "sleep 0"]]);
});

test("the groups after the sixth are one part, and their sum is kept", () => {
  const lines = Array.from({ length: 9 }, (_, number) => line("2026-01-01", `agent-${number}`, 9 - number));
  const [bar] = stackByDay(lines, ["2026-01-01"], ({ calls }) => calls);
  assert.deepEqual(bar!.parts.map(({ name }) => name).slice(-2), ["agent-5", "3 others"]);
  assert.equal(bar!.parts.reduce((sum, { value }) => sum + value, 0), 45);
});
