import type { AgentStateView, CircadiaEvent } from "@circadia/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";

import { circadia } from "./circadia";
import { useEventBatches } from "./live";
import { fetchPages } from "./pages";
import { Refresher, refreshTopic } from "./refresh";
import { mergeAgents, touchedAgents } from "./touched-agents";

/** Most agents that one call names; after more changes the whole list is read. */
const MOST_NAMED = 100;
const SOME_MILLISECONDS = 300;
const ALL_MILLISECONDS = 3_000;
/** Pages of 10,000 agents. */
const MOST_PAGES = 10;
const TOPIC = "agents";
const KEY = [TOPIC] as const;

/** Return all agents with their states; after an event only those that it concerns are read again. */
export function useAgentRows() {
  const client = useQueryClient();
  const rows = useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }) => {
      const pages = await fetchPages((after?: string) => circadia.listAgentStates({ query: { after }, signal }), MOST_PAGES);
      return pages.flatMap(({ agents }) => agents);
    },
    refetchOnMount: "always", // nothing follows the agents while the list is not shown
  });
  const touched = useRef(new Set<string>());
  const { some, all } = useMemo(() => {
    const all = new Refresher<string>((topic) => refreshTopic(client, topic), ALL_MILLISECONDS);
    const some: Refresher<string> = new Refresher<string>(async () => {
      if (client.isFetching({ queryKey: KEY }) > 0) return some.mark("some"); // that answer may be older, and would win
      const agent = [...touched.current];
      touched.current = new Set();
      if (agent.length > MOST_NAMED) return all.mark(TOPIC);
      try {
        const { agents } = await circadia.listAgentStates({ query: { agent } });
        client.setQueryData<AgentStateView[]>(KEY, (known) => known && mergeAgents(known, agent, agents));
      } catch (error) {
        for (const reference of agent) touched.current.add(reference);
        throw error;
      }
    }, SOME_MILLISECONDS);
    return { some, all };
  }, [client]);
  useEventBatches((batch: readonly CircadiaEvent[]) => {
    if (batch.some(({ type }) => type === "session_created" || type === "session_closed")) all.mark(TOPIC);
    const references = touchedAgents(batch);
    for (const reference of references) touched.current.add(reference);
    if (references.size > 0) some.mark("some");
  });
  useEffect(() => () => touched.current.clear(), []);
  return rows;
}
