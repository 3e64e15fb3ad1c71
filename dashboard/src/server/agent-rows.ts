import type { AgentStateView, CircadiaEvent } from "@circadia/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";

import { circadia } from "./circadia";
import { useEventBatches } from "./live";
import { Refresher } from "./refresh";
import { mergeAgents, touchedAgents } from "./touched-agents";

/** Most agents that one call names; after more changes the whole list is read. */
const MOST_NAMED = 100;
const SOME_MILLISECONDS = 300;
const ALL_MILLISECONDS = 3_000;
const MOST_ROWS = 100_000;
const KEY = ["agents"] as const;

/** Return all agents with their states; after an event only those that it concerns are read again. */
export function useAgentRows() {
  const client = useQueryClient();
  const rows = useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }) => (await circadia.listAgentStates({ query: { limit: MOST_ROWS }, signal })).agents,
  });
  const touched = useRef(new Set<string>());
  const { some, all } = useMemo(() => {
    const all = new Refresher<string>(() => client.invalidateQueries({ queryKey: KEY }, { cancelRefetch: false }), ALL_MILLISECONDS);
    const some = new Refresher<string>(async () => {
      const agent = [...touched.current];
      touched.current = new Set();
      if (agent.length > MOST_NAMED) return all.mark("all");
      const { agents } = await circadia.listAgentStates({ query: { agent } });
      client.setQueryData<AgentStateView[]>(KEY, (known) => known && mergeAgents(known, agent, agents));
    }, SOME_MILLISECONDS);
    return { some, all };
  }, [client]);
  useEventBatches((batch: readonly CircadiaEvent[]) => {
    if (batch.some(({ type }) => type === "session_created" || type === "session_closed")) all.mark("all");
    const references = touchedAgents(batch);
    for (const reference of references) touched.current.add(reference);
    if (references.size > 0) some.mark("some");
  });
  useEffect(() => () => touched.current.clear(), []);
  return rows;
}
