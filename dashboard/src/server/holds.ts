import type { HoldList } from "@circadia/client";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { holdsQuery, isSharedQuery } from "./queries";

/**
 * Other servers write how many calls they hold each second, and a silent call gets its first keep-alive, both without an
 * event: a page asks again.
 */
const ASK_AGAIN_MILLISECONDS = 2_000;

/** Return the calls that this server holds, and the numbers of those that the other servers of its cluster hold. */
export function useHolds(limit?: number, filter?: { session?: string; agent?: string }) {
  const isShared = useQuery(isSharedQuery).data ?? false;
  return useQuery({
    ...holdsQuery(limit, filter),
    refetchInterval: ({ state }) => (isShared || hasSilentCall(state.data)) && ASK_AGAIN_MILLISECONDS,
  });
}

function hasSilentCall(list: HoldList | undefined): boolean {
  return list?.holds.some(({ phase }) => phase === "silent") ?? false;
}

interface HoldsElsewhere {
  /** Number of calls by the agent's reference. */
  counts: ReadonlyMap<string, number>;
  /** Number of calls whose agents are beyond the limit of the answer. */
  unlisted: number;
}

/** Return the numbers of calls that other servers hold for each agent; none for a server alone. */
export function useHoldsElsewhere(): HoldsElsewhere {
  const isShared = useQuery(isSharedQuery).data ?? false;
  const { data } = useQuery({ ...holdsQuery(), refetchInterval: ASK_AGAIN_MILLISECONDS, enabled: isShared });
  return useMemo(() => countElsewhere(isShared ? data : undefined), [isShared, data]);
}

function countElsewhere(list: HoldList | undefined): HoldsElsewhere {
  const counts = new Map<string, number>();
  let unlisted = list?.total_elsewhere ?? 0;
  for (const { reference, holds } of list?.elsewhere ?? []) {
    counts.set(reference, (counts.get(reference) ?? 0) + holds);
    unlisted -= holds;
  }
  return { counts, unlisted };
}
