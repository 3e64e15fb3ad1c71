import type { CircadiaEvent } from "@circadia/client";

/** First part of a query's key: what events can change. */
export type Topic =
  | "agent" | "agents" | "answers" | "banks" | "blocks" | "cluster" | "coordination" | "events" | "holds"
  | "inbox" | "me" | "memory" | "overview" | "passes" | "pulses" | "schedule" | "sessions" | "sleeptime" | "threads"
  | "tokens" | "usage" | "wakes"; // prettier-ignore

const ALL_OF_AGENT: Topic[] = ["agent", "overview"];

const TOPICS: Record<CircadiaEvent["type"], Topic[]> = {
  session_created: ["sessions", "threads", ...ALL_OF_AGENT],
  session_closed: ["sessions", "threads", "holds", ...ALL_OF_AGENT],
  session_stalled: ["sessions"],
  agent_created: ALL_OF_AGENT,
  agent_changed: ALL_OF_AGENT,
  agent_deleted: ["holds", ...ALL_OF_AGENT],
  token_rotated: ["agent"],
  access_granted: ["tokens"],
  access_revoked: ["tokens", "me"],
  sleep_start: ALL_OF_AGENT,
  sleep_stop: ALL_OF_AGENT,
  held: ["holds", ...ALL_OF_AGENT],
  admitted: ["holds", ...ALL_OF_AGENT],
  dropped: ["holds", ...ALL_OF_AGENT],
  thread_created: ["threads"],
  thread_closed: ["threads"],
  participant_added: ["threads"],
  participant_removed: ["threads"],
  message: ["threads", "inbox"],
  direct_message: ["inbox"],
  delivery: ["inbox", "overview"],
  wake: ["wakes", ...ALL_OF_AGENT],
  pulse: ["pulses", "wakes", "inbox", ...ALL_OF_AGENT],
  routine: ["schedule"],
  coordination: ["coordination", "schedule"],
  alert: ["overview"],
  upstream_error: ["overview"],
  bank_created: ["banks"],
  bank_changed: ["banks"],
  bank_deleted: ["banks", "memory", "blocks"],
  block: ["blocks"],
  forgotten: ["banks", "memory", "blocks", "answers"],
  pass: ["passes", "sleeptime", "overview", "memory", "blocks", "answers"],
  passes_paused: ["sleeptime"],
  passes_resumed: ["sleeptime"],
  operation_paused: ["sleeptime"],
  answers_fell_back: ["answers"],
  answers_trusted: ["answers"],
};

/** All types of events. */
export const EVENT_TYPES = Object.keys(TOPICS) as CircadiaEvent["type"][];

/** Return what these events may have changed. */
export function topicsOf(events: readonly CircadiaEvent[]): Set<Topic> {
  const types = new Set(events.map((event) => event.type));
  return new Set([...types].flatMap((type) => TOPICS[type] ?? []));
}

/** Refreshes each key after a change: at once, then at most once per interval, and never twice at the same time. */
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
    while (state.isDirty) {
      state.isDirty = false;
      const pause = new Promise((resolve) => setTimeout(resolve, this.#milliseconds));
      await this.#refresh(key).catch(() => {}); // the query shows its error
      await pause;
    }
    this.#states.delete(key);
  }
}
