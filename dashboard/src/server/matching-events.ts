import type { CircadiaEvent } from "@circadia/client";

const MOST_KEPT = 2000;

/** Which events a list shows; of each kind all, if it is left out. */
export interface EventFilter {
  session?: string;
  agent?: string;
  types?: readonly CircadiaEvent["type"][];
}

/** Return the known events, newest first, with those of a batch that match and are newer. */
export function addMatching(
  known: readonly CircadiaEvent[],
  batch: readonly CircadiaEvent[],
  { session, agent, types = [] }: EventFilter,
): readonly CircadiaEvent[] {
  const newest = known[0]?.number ?? 0;
  const added = batch.filter(
    (event) =>
      event.number > newest &&
      (session === undefined || event.session === session) &&
      (agent === undefined || event.agent === agent) &&
      (types.length === 0 || types.includes(event.type)),
  );
  return added.length === 0 ? known : [...added.toReversed(), ...known].slice(0, MOST_KEPT);
}
