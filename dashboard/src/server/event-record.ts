import type { CircadiaEvent } from "@circadia/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";

import { circadia } from "./circadia";
import { useEventBatches, useLive } from "./live";
import { addMatching, type EventFilter } from "./matching-events";

/** Return the newest events that match, newest first; new ones come from the page's stream. */
export function useEventRecord(filter: EventFilter) {
  const client = useQueryClient();
  const live = useLive();
  const { session, agent, types = [] } = filter;
  const queryKey = ["events", session, agent, types.join()] as const;
  useEventBatches((batch) => {
    client.setQueryData<readonly CircadiaEvent[]>(queryKey, (known) => known && addMatching(known, batch, filter));
  });
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const { events } = await circadia.listEvents({
        query: { order: "newest", limit: 1000, ...(session && { session }), ...(agent && { agent }), type: [...types] },
        signal,
      });
      return addMatching(events, live.recent, filter); // what has happened since the server has read them
    },
    refetchOnMount: "always", // nothing adds to a list that is not shown
    staleTime: Infinity,
    structuralSharing: false, // the events of two lists are the same objects already
  });
}
