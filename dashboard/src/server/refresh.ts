import type { CircadiaEvent } from "@circadia/client";
import type { Query, QueryClient } from "@tanstack/react-query";

import { referenceOf } from "./reference.ts";

/** First part of a query's key: what events can change. */
export type Topic =
  | "agent" | "agents" | "alarms" | "alerts" | "answers" | "approvals" | "banks" | "blocks" | "calls" | "cluster" | "coordination" | "dreams" | "events" | "for-you" | "holds" | "hooks"
  | "inbox" | "me" | "memory" | "overview" | "passes" | "pulses" | "schedule" | "sessions" | "sleeptime" | "threads"
  | "timeline" | "tokens" | "usage" | "wakes"; // prettier-ignore

/** Longest pause before a refresh that has failed is repeated. */
const LONGEST_PAUSE_MILLISECONDS = 10_000;

const ALL_OF_AGENT: Topic[] = ["agent", "overview"];

const TOPICS: Record<CircadiaEvent["type"], Topic[]> = {
  session_created: ["sessions", "threads", ...ALL_OF_AGENT],
  session_closed: ["sessions", "threads", "holds", "inbox", ...ALL_OF_AGENT],
  session_stalled: ["sessions"],
  agent_created: ["timeline", ...ALL_OF_AGENT],
  agent_changed: ALL_OF_AGENT,
  agent_deleted: ["holds", "inbox", "timeline", ...ALL_OF_AGENT],
  token_rotated: ["agent"],
  access_granted: ["tokens"],
  access_revoked: ["tokens", "me"],
  sleep_start: ["timeline", ...ALL_OF_AGENT],
  sleep_stop: ["timeline", ...ALL_OF_AGENT],
  held: ["holds", "calls", "timeline", ...ALL_OF_AGENT],
  admitted: ["holds", "calls", "timeline", ...ALL_OF_AGENT],
  dropped: ["holds", "calls", "timeline", ...ALL_OF_AGENT],
  thread_created: ["threads"],
  thread_closed: ["threads"],
  participant_added: ["threads"],
  participant_removed: ["threads"],
  message: ["threads", "inbox"],
  direct_message: ["inbox"],
  delivery: ["inbox", "overview", "for-you"],
  wake: ["wakes", "timeline", ...ALL_OF_AGENT],
  pulse: ["pulses", "wakes", "inbox", "timeline", "for-you", ...ALL_OF_AGENT],
  routine: ["schedule", "alarms"],
  alarm: ["alarms", "schedule", ...ALL_OF_AGENT],
  named_event: ["alarms"],
  approval: ["approvals", "holds", "overview", "for-you"],
  resumed: ["calls"],
  coordination: ["coordination", "schedule"],
  hook: ["hooks"],
  hook_delivery: ["hooks", "inbox"],
  alert: ["overview", "for-you"],
  alert_raised: ["alerts", "overview", "for-you"],
  alert_acknowledged: ["alerts", "overview", "for-you"],
  upstream_error: ["overview"],
  bank_created: ["banks"],
  bank_changed: ["banks"],
  bank_deleted: ["banks", "memory", "blocks", "passes", "for-you"],
  block: ["blocks"],
  forgotten: ["banks", "memory", "blocks", "answers", "passes", "for-you"],
  restored: ["banks", "memory"],
  corrected: ["banks", "memory"],
  demoted: ["memory"],
  promoted: ["banks", "memory"],
  pass: ["passes", "sleeptime", "overview", "memory", "blocks", "answers", "for-you"],
  dream: ["dreams", "for-you"],
  reviewed: ["passes", "dreams", "sleeptime", "overview", "memory", "blocks", "answers", "for-you"],
  passes_paused: ["sleeptime"],
  passes_resumed: ["sleeptime"],
  operation_paused: ["sleeptime"],
  answers_fell_back: ["answers"],
  answers_trusted: ["answers"],
  answers_dropped: ["answers"],
};

/** All types of events. */
export const EVENT_TYPES = Object.keys(TOPICS) as CircadiaEvent["type"][];

/** Return what these events may have changed, each once: topics, and single agents as `agent REFERENCE`. */
export function topicsOf(events: readonly CircadiaEvent[]): Set<string> {
  const topics = new Set<string>();
  for (const { type, session, agent } of events) {
    for (const topic of TOPICS[type] ?? []) {
      topics.add(topic === "agent" && agent !== null ? `agent ${referenceOf(session, agent)}` : topic);
    }
  }
  return topics;
}

/** Read the queries of a topic again. Raises the error of one that failed and may succeed later. */
export async function refreshTopic(client: QueryClient, topic: string): Promise<void> {
  const queryKey = topic.split(" ");
  const queries = client.getQueryCache();
  const onTheirWay = queries.findAll({ queryKey, fetchStatus: "fetching" }); // these may be older than the change
  await Promise.allSettled(onTheirWay.map(({ promise }) => promise));
  await client.invalidateQueries({ queryKey, predicate: isThere(client) }, { cancelRefetch: false });
  for (const { state } of queries.findAll({ queryKey, type: "active" })) {
    if (state.error && isTemporary(state.error)) throw state.error;
  }
}

/** First part of the key of an act that removes the agent in its second part. */
export const REMOVAL = "removal";

/** Return whether a query is about something that no act of this page removes or has just removed: asked again, it would fail. */
export function isThere(client: QueryClient): (query: Pick<Query, "queryKey">) => boolean {
  const removals = client.getMutationCache().findAll({ mutationKey: [REMOVAL], predicate: ({ state }) => state.status !== "error" });
  const removed = removals.map(({ options }) => options.mutationKey![1]);
  return ({ queryKey }) => !queryKey.some((part) => removed.includes(part));
}

/** Whether the same request may succeed later. */
function isTemporary(error: Error): boolean {
  const { status } = error as { status?: number | undefined };
  return status === undefined || status === 429 || status >= 500;
}

/**
 * Refreshes each key after a change: at once, then at most once per interval, and never twice at the same time.
 *
 * A refresh that fails is repeated, after ever longer pauses.
 */
export class Refresher<Key> {
  readonly #states = new Map<Key, { isDirty: boolean }>();
  readonly #refresh: (key: Key) => Promise<unknown>;
  readonly #milliseconds: number;

  constructor(refresh: (key: Key) => Promise<unknown>, milliseconds: number) {
    this.#refresh = refresh;
    this.#milliseconds = milliseconds;
  }

  mark(key: Key): void {
    const state = this.#states.get(key);
    if (state) state.isDirty = true;
    else void this.#run(key);
  }

  async #run(key: Key): Promise<void> {
    const state = { isDirty: true };
    this.#states.set(key, state);
    for (let failures = 0; state.isDirty; ) {
      state.isDirty = false;
      try {
        await Promise.all([this.#refresh(key), wait(this.#milliseconds)]);
        failures = 0;
      } catch {
        state.isDirty = true;
        await wait(Math.min(this.#milliseconds * 2 ** failures++, LONGEST_PAUSE_MILLISECONDS));
      }
    }
    this.#states.delete(key);
  }
}

function wait(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
