import type { ListCallsData } from "@circadia/client";

export type CallFilter = Omit<NonNullable<ListCallsData["query"]>, "after" | "limit">;

/** Names of the filters, in the address as in the API. */
export const CALL_FILTERS = ["agent", "session", "model", "tier", "status", "upstream", "end_user", "conversation", "since", "until", "order"] as const;
const SLEEP = /^sleep (.*)$/s;

/** Return the address of the calls behind a figure; undefined if they cannot be told from others. */
export function callsAddress(filter: CallFilter): string {
  const params = new URLSearchParams();
  for (const name of CALL_FILTERS) {
    const value = filter[name];
    if (value) params.set(name, value);
  }
  return `/calls?${params}`;
}

/** Return the filter for a key of the usage report; undefined where a call has none, which no filter can ask for. */
export function filterOfUsage(grouping: string, key: string): CallFilter | undefined {
  if (key === "") return undefined;
  if (grouping === "day") return { since: key, until: nextDay(key) };
  if (grouping !== "agent") return { [grouping]: key };
  const bank = SLEEP.exec(key)?.[1];
  if (bank !== undefined) return { tier: "sleep", agent: bank };
  const colon = key.lastIndexOf(":");
  return { session: colon < 0 ? "default" : key.slice(0, colon), agent: key.slice(colon + 1) };
}

function nextDay(day: string): string {
  return new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);
}
