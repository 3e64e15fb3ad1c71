import type { BlackoutBody, RoutineBody } from "@circadia/client";

import { formatDuration } from "../server/format.ts";

/** Return when a routine runs, in words. */
export function describeRule(routine: RoutineBody): string {
  if (typeof routine.cron === "string") return routine.cron;
  if (typeof routine.every_seconds === "number") return `every ${formatDuration(routine.every_seconds)}`;
  return routine.at?.join(", ") ?? "";
}

/** Return when a blackout is, in words. */
export function describeTimes({ start_time, end_time, weekdays, start, end }: BlackoutBody): string {
  if (start_time === undefined) return `${start} to ${end}`;
  const days = weekdays && weekdays.length < 7 ? weekdays.join(", ") : "each day";
  return `${start_time} to ${end_time}, ${days}`;
}

/** Return what a person calls an entry of a schedule. */
export function nameEntry(name: string, value: unknown): string {
  if (name === "zone") return "Time zone";
  if (name.startsWith("routine ")) return `Routine ${(value as RoutineBody | undefined)?.name ?? name.slice("routine ".length)}`;
  return `Blackout ${(value as BlackoutBody | undefined)?.label ?? ""}`.trim();
}

/** Return an entry of a schedule in words. */
export function describeEntry(value: unknown): string {
  if (value === undefined) return "none";
  if (typeof value === "string") return value;
  if (!("name" in (value as object))) {
    const blackout = value as BlackoutBody;
    return [blackout.label, describeTimes(blackout)].filter(Boolean).join("; ");
  }
  const { name, instructions, enabled, blackout_policy, misfire_grace_seconds, timeout_seconds, jitter_seconds, stagger_seconds, anchor, offset_seconds } = value as RoutineBody;
  const rest = { blackout_policy, misfire_grace_seconds, timeout_seconds, jitter_seconds, stagger_seconds, anchor, offset_seconds };
  const parts = Object.entries(rest).map(([key, part]) => `${key.replaceAll("_", " ")} ${part ?? "none"}`);
  return [name, describeRule(value as RoutineBody), enabled === false ? "off" : "on", ...parts, instructions].filter(Boolean).join("; ");
}
