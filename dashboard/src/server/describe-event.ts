import type { CircadiaEvent } from "@circadia/client";

const WORDS: Partial<Record<CircadiaEvent["type"], string>> = {
  sleep_start: "fell asleep",
  sleep_stop: "woke",
  held: "call held",
  admitted: "held call released",
  dropped: "held call dropped",
  token_rotated: "got a new token",
  reviewed: "changes decided",
  answers_dropped: "ready answers dropped",
};

const SHOWN = ["decision", "act", "status", "what", "cause", "actor", "from", "by", "reason", "rule", "detail", "bank", "label", "state", "upstream", "error"]; // prettier-ignore

/** Return an event's type in words. */
export function nameEvent({ type }: CircadiaEvent): string {
  return WORDS[type] ?? type.replaceAll("_", " ");
}

/** Return the details of an event in one line. */
export function describeEvent(event: CircadiaEvent): string {
  const data: Record<string, unknown> = { ...event.data };
  return SHOWN.filter((key) => data[key] !== undefined && data[key] !== null && data[key] !== "")
    .map((key) => `${key} ${String(data[key])}`)
    .join(", ");
}
