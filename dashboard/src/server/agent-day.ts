import type { CircadiaEvent, PulseView } from "@circadia/client";

export interface Span {
  from: number;
  to: number;
  title: string;
  /** Whether it is a pulse that ended badly. */
  hasFailed?: boolean;
}

export interface Mark {
  at: number;
  title: string;
  isAdmitted: boolean;
}

/** What one agent did on one day; times in milliseconds since 1970. */
export interface AgentDay {
  asleep: Span[];
  held: Span[];
  pulses: Span[];
  wakes: Mark[];
}

const FAILED: readonly PulseView["status"][] = ["failed", "timed_out", "interrupted"];

interface Facts {
  /** Newest first. */
  events: readonly CircadiaEvent[];
  pulses: readonly PulseView[];
  isAsleep: boolean;
  /** When `isAsleep` became true or false. */
  since: string;
  dayStart: number;
  now: number;
}

/** Return the spans and marks of the day from its events, its pulses and the present state. */
export function buildAgentDay({ events, pulses, isAsleep, since, dayStart, now }: Facts): AgentDay {
  const today = events.filter(({ at }) => Date.parse(at) >= dayStart).toReversed();
  const clip = (from: number, to: number, title: string): Span => ({ from: Math.max(from, dayStart), to, title });
  return {
    asleep: findSleep(today, isAsleep, Date.parse(since), dayStart, now).map(([from, to]) => clip(from, to, "asleep")),
    held: findHolds(today, dayStart, now),
    pulses: pulses
      .filter((pulse) => pulse.started_at !== null && endOf(pulse, now) > dayStart)
      .map((pulse) => ({
        ...clip(Date.parse(pulse.started_at!), endOf(pulse, now), `pulse ${pulse.status}: ${pulse.reason || pulse.kind}`),
        hasFailed: FAILED.includes(pulse.status),
      })),
    wakes: today
      .filter(({ type }) => type === "wake")
      .map(({ at, data }) => {
        const { decision, from, rule } = data as Record<string, unknown>;
        return {
          at: Date.parse(at),
          title: `wake ${String(decision)}, from ${String(from)}${rule ? ` (${String(rule)})` : ""}`,
          isAdmitted: decision === "admitted" || decision === "coalesced",
        };
      }),
  };
}

function endOf(pulse: PulseView, now: number): number {
  return pulse.ended_at === null ? now : Date.parse(pulse.ended_at);
}

function findSleep(today: readonly CircadiaEvent[], isAsleep: boolean, since: number, dayStart: number, now: number): [number, number][] {
  const moves = today.filter(({ type }) => type === "sleep_start" || type === "sleep_stop");
  const spans: [number, number][] = [];
  const first = moves[0];
  let start: number | undefined = (first ? first.type === "sleep_stop" : isAsleep) ? (first ? dayStart : since) : undefined;
  for (const { type, at } of moves) {
    if (type === "sleep_start") start ??= Date.parse(at);
    else if (start !== undefined) {
      spans.push([start, Date.parse(at)]);
      start = undefined;
    }
  }
  if (start !== undefined) spans.push([start, now]);
  return spans;
}

function findHolds(today: readonly CircadiaEvent[], dayStart: number, now: number): Span[] {
  const open = new Map<unknown, { at: number; what: string }>();
  const spans: Span[] = [];
  for (const { type, at, data } of today) {
    const { hold, what } = data as Record<string, unknown>;
    if (type === "held") open.set(hold, { at: Date.parse(at), what: String(what) });
    if (type !== "admitted" && type !== "dropped") continue;
    const begun = open.get(hold) ?? { at: dayStart, what: String(what ?? "a call") };
    spans.push({ from: begun.at, to: Date.parse(at), title: `${begun.what}: held, then ${type}` });
    open.delete(hold);
  }
  for (const { at, what } of open.values()) spans.push({ from: at, to: now, title: `${what}: held` });
  return spans;
}
