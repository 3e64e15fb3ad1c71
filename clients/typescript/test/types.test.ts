// Checked by `tsc` more than run: what the types allow, and what they refuse.
import assert from "node:assert/strict";
import { test } from "node:test";

import { type Circadia, circadiaMiddleware, type CircadiaEvent, type ListAgentsResponse } from "@circadia/client";
import { wrapLanguageModel } from "ai";
import { wrapLanguageModel as wrapInVersion5 } from "ai-v5";
import { wrapLanguageModel as wrapInVersion6 } from "ai-v6";

export async function useTypes(circadia: Circadia, event: CircadiaEvent): Promise<void> {
  const { agents }: ListAgentsResponse = await circadia.listAgents({ path: { session: "default" } });
  const asleep: boolean = agents[0]!.sleeping;
  const number: number = event.number;
  assert.ok([asleep, number]);
  // @ts-expect-error: the path needs an agent
  await circadia.getSleeping({ path: { session: "default" } });
  // @ts-expect-error: an unknown key
  await circadia.createSession({ body: { nam: "release-7" } });
  // @ts-expect-error: an unknown type of event
  circadia.events({ type: ["exploded"] });
}

test("the middleware fits the AI SDK's versions 5 to 7, in types and at work", async () => {
  const seen: unknown[] = [];
  const model = {
    provider: "stub",
    modelId: "stub",
    supportedUrls: {},
    doGenerate: async ({ headers }: { headers?: Record<string, string | undefined> }) => seen.push(headers),
  };
  const middleware = circadiaMiddleware({ user: "ann" });
  const wrapped = [
    wrapInVersion5({ model: { ...model, specificationVersion: "v2" } as never, middleware }),
    wrapInVersion6({ model: { ...model, specificationVersion: "v3" } as never, middleware }),
    wrapLanguageModel({ model: { ...model, specificationVersion: "v4" } as never, middleware }),
  ];
  for (const { doGenerate } of wrapped) await doGenerate({ prompt: [] });
  assert.deepEqual(seen, Array(3).fill({ "x-circadia-user": "ann", "x-stainless-timeout": "300" }));
});
