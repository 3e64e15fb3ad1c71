import type { CircadiaEvent } from "@circadia/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";

import { useEventBatches } from "./live";
import { agentEventsQuery } from "./queries";

const MOST_KEPT = 1000;

/** Return the newest events of one agent, newest first; new ones come from the page's stream. */
export function useAgentEvents(session: string, agent: string) {
  const client = useQueryClient();
  const options = agentEventsQuery(session, agent);
  useEventBatches((batch) => {
    const own = batch.filter((event) => event.session === session && event.agent === agent);
    if (own.length > 0) client.setQueryData<CircadiaEvent[]>(options.queryKey, (known) => known && addNewer(known, own));
  });
  return useQuery(options);
}

function addNewer(known: readonly CircadiaEvent[], batch: readonly CircadiaEvent[]): CircadiaEvent[] {
  const newest = known[0]?.number ?? 0;
  return [...batch.filter(({ number }) => number > newest).toReversed(), ...known].slice(0, MOST_KEPT);
}
