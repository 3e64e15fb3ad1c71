// Checked by `tsc` more than run: what the types allow, and what they refuse.
import assert from "node:assert/strict";
import { test } from "node:test";

import { type Circadia, circadiaMiddleware, type CircadiaEvent, type ListAgentsResponse } from "@circadia/client";
import { wrapLanguageModel, wrapProvider } from "ai";
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

test("the middleware fits the AI SDK's versions 5 to 7", () => {
  const wrappers = { wrapInVersion5, wrapInVersion6, wrapLanguageModel };
  for (const [name, wrap] of Object.entries(wrappers)) assert.equal(typeof wrap, "function", name);
});

export const middlewareFits = {
  5: (model: Parameters<typeof wrapInVersion5>[0]["model"]) =>
    wrapInVersion5({ model, middleware: circadiaMiddleware() }),
  6: (model: Parameters<typeof wrapInVersion6>[0]["model"]) =>
    wrapInVersion6({ model, middleware: circadiaMiddleware() }),
  7: (model: Parameters<typeof wrapLanguageModel>[0]["model"]) =>
    wrapLanguageModel({ model, middleware: [circadiaMiddleware({ user: "ann" })] }),
  provider: (provider: Parameters<typeof wrapProvider>[0]["provider"]) =>
    wrapProvider({ provider, languageModelMiddleware: circadiaMiddleware() }),
};
