import type { PrincipalView } from "@circadia/client";
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { createContext, useContext } from "react";

import { circadia, isSignedOut } from "./circadia";
import { LiveEvents } from "./live-events";
import { Refresher, refreshTopic, topicsOf } from "./refresh";

/** Least time between two refreshes of the same queries by events. */
const REFRESH_MILLISECONDS = 500;
const SESSION_KEY = ["me"];

/** Who is signed in, and the number of the newest event at that time. */
export interface Session {
  person: PrincipalView;
  newestEvent: number;
}

/** A session, or why there is none: nobody has signed in, or the server takes the sign-in no longer. */
type SessionState = Session | "none" | "ended";

export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: forgetSession }),
  mutationCache: new MutationCache({ onError: forgetSession }),
  defaultOptions: {
    queries: { retry: false, staleTime: 5_000, gcTime: 60_000, refetchOnWindowFocus: false, networkMode: "always" },
    mutations: { networkMode: "always" },
  },
});

queryClient.setQueryDefaults(["draft"], { gcTime: Infinity }); // what a person has typed is not forgotten

export const sessionQuery = {
  queryKey: SESSION_KEY,
  staleTime: Infinity,
  gcTime: Infinity,
  async queryFn(): Promise<SessionState> {
    try {
      // The events begin where the answers of the page begin: nothing that happens in between is missed.
      const newest = circadia.listEvents({ query: { order: "newest", limit: 1 } });
      newest.catch(() => {}); // when nobody is signed in
      const person = await circadia.showPrincipal();
      return { person, newestEvent: (await newest).after };
    } catch (error) {
      if (isSignedOut(error)) return withoutSession();
      throw error;
    }
  },
};

/** Return the state after the server has refused the sign-in. */
function withoutSession(): "none" | "ended" {
  const state = queryClient.getQueryData<SessionState>(SESSION_KEY);
  return typeof state === "object" ? "ended" : (state ?? "none");
}

/**
 * Show the sign-in in place of the page, whose address stays; the next person may see other things. Drafts, whose keys
 * name their person, outlive a sign-in that ended, and no sign-out.
 */
export function endSession(state: "none" | "ended"): void {
  queryClient.setQueryData<SessionState>(SESSION_KEY, state);
  const kept: readonly unknown[] = state === "ended" ? [SESSION_KEY[0], "draft"] : [SESSION_KEY[0]];
  queryClient.removeQueries({ predicate: (query) => !kept.includes(query.queryKey[0]) });
}

function forgetSession(error: unknown): void {
  if (isSignedOut(error)) endSession(withoutSession());
}

const refresher = new Refresher<string>((topic) => refreshTopic(queryClient, topic), REFRESH_MILLISECONDS);

/** Return the page's stream of events, which refreshes the queries that they concern. */
export function createLiveEvents(): LiveEvents {
  const live = new LiveEvents((options) => circadia.events(options), forgetSession, refreshAll);
  live.listen((batch) => topicsOf(batch).forEach(markKnown));
  return live;
}

/** Mark a topic; most events concern an agent that no page shows. */
function markKnown(topic: string): void {
  const isShown = !topic.includes(" ") || queryClient.getQueryState(topic.split(" ")) !== undefined;
  if (isShown) refresher.mark(topic);
}

function refreshAll(): void {
  const topics = queryClient.getQueryCache().getAll().map(({ queryKey }) => String(queryKey[0]));
  for (const topic of new Set(topics)) refresher.mark(topic);
}

export const PersonContext = createContext<PrincipalView>({ name: "", role: "viewer" });
export const LiveContext = createContext<LiveEvents | null>(null);

/** Why the signed-in person may not change anything, or undefined if they may. */
export function useActBarrier(): string | undefined {
  const { role } = useContext(PersonContext);
  return role === "operator" ? undefined : "You are signed in as a viewer. Only an operator can do this.";
}
