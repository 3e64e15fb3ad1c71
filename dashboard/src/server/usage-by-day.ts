import type { GroupUsage } from "@circadia/client";

import { serverNow } from "./clock.ts";

/** A bar of a chart, made of parts that have the same names and order in each bar. */
export interface Bar {
  label: string;
  parts: { name: string; value: number }[];
}

/** Most parts that have a colour of their own. */
const MOST_PARTS = 6;

/** Return a bar for each day, with a part for each of the largest groups, and one for all others together. */
export function stackByDay(lines: readonly GroupUsage[], days: readonly string[], measure: (line: GroupUsage) => number): Bar[] {
  const sums = new Map<string, number>();
  const values = new Map<string, number>();
  for (const line of lines) {
    const [day = "", name = ""] = line.keys;
    sums.set(name, (sums.get(name) ?? 0) + measure(line));
    values.set(`${day} ${name}`, measure(line));
  }
  const names = [...sums.keys()].sort((one, other) => sums.get(other)! - sums.get(one)! || one.localeCompare(other));
  const shown = names.slice(0, MOST_PARTS);
  const others = names.slice(MOST_PARTS);
  return days.map((day) => {
    const valueOf = (name: string) => values.get(`${day} ${name}`) ?? 0;
    const parts = shown.map((name) => ({ name: name || "none", value: valueOf(name) }));
    const rest = { name: `${others.length} others`, value: others.reduce((sum, name) => sum + valueOf(name), 0) };
    return { label: day, parts: others.length > 0 ? [...parts, rest] : parts };
  });
}

/** Return the UTC days from so many days ago to today. */
export function lastDays(daysAgo: number): string[] {
  return Array.from({ length: daysAgo + 1 }, (_, index) =>
    new Date(serverNow() - (daysAgo - index) * 86_400_000).toISOString().slice(0, 10),
  );
}
