import type { ReportUsageData, UsageReport } from "@circadia/client";
import { queryOptions } from "@tanstack/react-query";

import { circadia } from "./circadia";
import { startOfDay } from "./clock";
import type { Topic } from "./refresh";

/** A query's key begins with the topic whose events refresh it. */
type Key = readonly [Topic, ...(string | number | undefined)[]];

/** Usage has no events: a page that shows it asks again after so long. */
const USAGE_MILLISECONDS = 5_000;
const HEALTH_MILLISECONDS = 10_000;

export function query<Data>(queryKey: Key, queryFn: (context: { signal: AbortSignal }) => Promise<Data>) {
  return queryOptions({ queryKey, queryFn });
}

export const countsQuery = query(["counts"], async ({ signal }) => {
  return (await circadia.listAgentStates({ query: { limit: 0 }, signal })).counts;
});

export const agentQuery = (session: string, agent: string) =>
  query(["agent", session, agent], ({ signal }) => circadia.showAgent({ path: { session, agent }, signal }));

export const sessionsQuery = query(["sessions"], async ({ signal }) => (await circadia.listSessions({ signal })).sessions);

export const holdsQuery = (limit = 1000) => query(["holds", limit], ({ signal }) => circadia.listHolds({ query: { limit }, signal }));

export const alertsQuery = query(["alerts"], async ({ signal }) => {
  return (await circadia.listEvents({ query: { order: "newest", type: ["alert"], limit: 50 }, signal })).events;
});

export const upstreamErrorsQuery = query(["upstream-errors"], async ({ signal }) => {
  return (await circadia.listEvents({ query: { order: "newest", type: ["upstream_error"], limit: 50 }, signal })).events;
});

export const agentEventsQuery = (session: string, agent: string) =>
  query(["events", session, agent], async ({ signal }) => {
    return (await circadia.listEvents({ query: { order: "newest", session, agent, limit: 1000 }, signal })).events;
  });

export type UsageGroup = NonNullable<NonNullable<ReportUsageData["query"]>["group_by"]>;

/** Usage since this many days before today; the day is part of the key, so that midnight begins a new one. */
export const usageQuery = (groupBy: UsageGroup, daysAgo = 0, filter: { session?: string; agent?: string } = {}) => {
  const since = startOfDay(daysAgo);
  return queryOptions({
    queryKey: ["usage", groupBy, since, filter.session, filter.agent] as const,
    queryFn: ({ signal }): Promise<UsageReport> =>
      circadia.reportUsage({ query: { group_by: groupBy, since, ...filter }, signal }),
    refetchInterval: USAGE_MILLISECONDS,
  });
};

export const sleeptimeQuery = query(["sleeptime"], ({ signal }) => circadia.showSleeptimeOfAll({ signal }));

export const clusterQuery = queryOptions({
  queryKey: ["cluster"] as const,
  queryFn: async ({ signal }) => (await circadia.showCluster({ signal })).members,
  refetchInterval: HEALTH_MILLISECONDS,
});

/** Whether the server that serves this page is ready: its database answers, and it does not stop. */
export const readinessQuery = queryOptions({
  queryKey: ["cluster", "ready"] as const,
  queryFn: async ({ signal }): Promise<string> => {
    const response = await fetch("/readyz", { signal });
    if (response.ok) return "";
    const problem = (await response.json().catch(() => null)) as { detail?: string } | null;
    return problem?.detail ?? `the server answers with status ${response.status}`;
  },
  refetchInterval: HEALTH_MILLISECONDS,
});

export const matrixQuery = () => {
  const since = startOfDay();
  return query(["wakes", "matrix", since], async ({ signal }) => (await circadia.wakeMatrix({ query: { since }, signal })).pairs);
};

export const wakesQuery = (agent?: string, limit = 200) =>
  query(["wakes", agent, limit], async ({ signal }) => {
    return (await circadia.listWakes({ query: { limit, ...(agent && { agent }) }, signal })).wakes;
  });

export const wakeQuery = (wake: string) =>
  query(["wakes", "one", wake], ({ signal }) => circadia.showWake({ path: { wake }, signal }));

export const chainQuery = (root: string) =>
  query(["wakes", "chain", root], ({ signal }) => circadia.showChain({ path: { root }, signal }));

export const wakeStatsQuery = (agent: string) =>
  query(["wakes", "stats", agent], ({ signal }) => circadia.wakeStats({ path: { agent }, signal }));

export const coordinationQuery = (agent: string) =>
  query(["coordination", agent], async ({ signal }) => (await circadia.showCoordination({ path: { agent }, signal })).settings);

export const pulsesQuery = (agent: string) =>
  query(["pulses", agent], async ({ signal }) => (await circadia.listPulses({ path: { agent }, query: { limit: 200 }, signal })).pulses);

export const inboxQuery = (agent: string, state: ("unread" | "leased" | "handled" | "dead")[]) =>
  query(["inbox", agent, state.join()], ({ signal }) =>
    circadia.showInbox({ path: { agent }, query: { state, limit: 200 }, signal }),
  );
