import type { PassCostView, PassView } from "@circadia/client";

import { formatCount, formatNumberOf, formatUsd } from "./format.ts";

const EFFECTS: Record<string, string> = {
  add_note: "notes added", retire_note: "notes retired", demote_episode: "episodes demoted", write_block: "blocks written",
  flag: "contradictions reported", staged: "waiting for a person", answers_dropped: "answers dropped",
  vectors: "vectors computed", unread_characters: "characters not read",
}; // prettier-ignore

/** Return what a pass did, in words. */
export function describeEffect({ counts }: Pick<PassView, "counts">): string {
  const { full, ...effects } = counts;
  const shown = Object.entries(effects).filter(([, count]) => count > 0);
  const words = shown.map(([name, count]) => `${formatCount(count)} ${EFFECTS[name] ?? name.replaceAll("_", " ")}`);
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
