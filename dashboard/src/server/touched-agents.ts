import type { AgentStateView, CircadiaEvent } from "@circadia/client";

import { referenceOf } from "./reference.ts";

const TYPES = new Set<CircadiaEvent["type"]>([
  "agent_created", "agent_changed", "agent_deleted", "sleep_start", "sleep_stop", "held", "admitted", "dropped", "pulse",
]); // prettier-ignore

/** Return the references of the agents whose states these events may have changed. */
export function touchedAgents(events: readonly CircadiaEvent[]): Set<string> {
  const references = events
    .filter(({ type, agent }) => agent !== null && TYPES.has(type))
    .map(({ session, agent }) => referenceOf(session, agent!));
  return new Set(references);
}

/** Return the known agents with those that were asked for as they are now: changed, new or gone. */
export function mergeAgents(
  known: readonly AgentStateView[],
  asked: readonly string[],
  present: readonly AgentStateView[],
): AgentStateView[] {
  const now = new Map(present.map((agent) => [agent.reference, agent]));
  const gone = new Set(asked.filter((reference) => !now.has(reference)));
  const merged: AgentStateView[] = [];
  for (const agent of known) {
    if (gone.has(agent.reference)) continue;
    merged.push(now.get(agent.reference) ?? agent);
    now.delete(agent.reference);
  }
  return [...merged, ...now.values()];
}
