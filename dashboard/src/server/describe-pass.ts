import type { PassCostView, PassView } from "@circadia/client";

import { formatCount, formatNumberOf, formatUsd } from "./format.ts";

/** What was done to how many of what. */
const EFFECTS: Record<string, [string, string]> = {
  add_note: ["note", "added"], retire_note: ["note", "retired"], demote_episode: ["episode", "demoted"], write_block: ["block", "written"],
  flag: ["contradiction", "reported"], answers_dropped: ["answer", "dropped"], vectors: ["vector", "computed"],
  unread_characters: ["character", "not read"],
}; // prettier-ignore

/** Return what a pass did, in words. */
export function describeEffect({ counts }: Pick<PassView, "counts">): string {
  const { full, ...effects } = counts;
  const shown = Object.entries(effects).filter(([, count]) => count > 0);
  const words = shown.map(([name, count]) => {
    const [noun, done] = EFFECTS[name] ?? [];
    if (noun !== undefined) return `${formatNumberOf(count, noun)} ${done}`;
    return `${formatCount(count)} ${name === "staged" ? "waiting for a person" : name.replaceAll("_", " ")}`;
  });
  return [...(full ? ["all notes reviewed"] : []), ...words].join(", ") || "no change";
}

export function describeCost({ calls, tokens, usd }: PassCostView): string {
  if (calls === 0) return "no model call";
  return `${formatUsd(usd)}, ${formatNumberOf(tokens, "token")}, ${formatNumberOf(calls, "call")}`;
}

/** Whether the pass has not ended. */
export function isOpen({ status }: Pick<PassView, "status">): boolean {
  return status === "pending" || status === "running";
}
