import type { TimelineSpan, TimelineLane, TimelineSum } from "@circadia/client";

import { formatDuration, formatNumberOf } from "./format.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

export type Range = "6 h" | "day" | "yesterday" | "7 days";
export type Order = "by session" | "by cost" | "longest asleep";

/** A part of time, in milliseconds since 1970. */
export interface Window {
  since: number;
  until: number;
}

/** Return the window of a range: the last six hours, the UTC day to its end, the one before, or the last seven days. */
export function windowOf(range: Range, now: number): Window {
  if (range === "day" || range === "yesterday") {
    const since = Math.floor(now / DAY) * DAY - (range === "day" ? 0 : DAY);
    return { since, until: since + DAY };
  }
  return { since: now - (range === "6 h" ? 6 * HOUR : 7 * DAY), until: now };
}

/** A mark of a scale, at `x` pixels. */
export interface Tick {
  at: number;
  x: number;
  label: string;
}

/** Hours between the marks of a scale; of days, whole days. */
const STEPS_OF_HOURS = [1, 3, 6, 12, 24];
const STEPS_OF_DAYS = [24, 48, 96, 192];
/** Room that a label of 11 px needs, with a gap to the next one. */
const LABEL_PIXELS = 40;

/** Return the marks of a scale of this width: as many as have room for their labels, each below the middle of its own. */
export function ticksOf({ since, until }: Window, width: number): Tick[] {
  const isDays = until - since > 2 * DAY;
  const steps = isDays ? STEPS_OF_DAYS : until - since > 8 * HOUR ? STEPS_OF_HOURS.slice(1) : STEPS_OF_HOURS;
  const pixels = width / (until - since);
  const step = (steps.find((hours) => hours * HOUR * pixels >= LABEL_PIXELS) ?? steps.at(-1)!) * HOUR;
  const first = Math.ceil(since / step) * step;
  return Array.from({ length: Math.max(0, Math.floor((until - first) / step) + 1) }, (_, index) => {
    const at = first + index * step;
    const date = new Date(at).toISOString();
    const label = isDays ? date.slice(5, 10) : at === until && at % DAY === 0 ? "24:00" : date.slice(11, 16);
    return { at, x: (at - since) * pixels, label };
  });
}

/** Layers of a lane, from the bottom to the top. */
export const LAYERS = ["awake", "asleep", "held", "pulse", "failed"] as const;
export type Layer = (typeof LAYERS)[number];

/** Narrowest part that is drawn, in pixels. */
const NARROWEST = 1.5;

export interface Drawing {
  /** For each layer the rectangles, as the data of one path; empty without any. */
  paths: Record<Layer, string>;
  marks: { x: number; isRefusal: boolean }[];
}

function layerOf({ kind, failed }: TimelineSpan): Layer | undefined {
  if (kind === "wake" || kind === "refusal") return undefined;
  return failed ? "failed" : kind;
}

function endOf({ ended_at }: TimelineSpan, now: number): number {
  return ended_at === null ? now : Date.parse(ended_at);
}

/** Draw a lane of this width. Parts that are closer than half a pixel become one, so that any number has a bounded cost. */
export function drawLane(spans: readonly TimelineSpan[], { since, until }: Window, now: number, width: number): Drawing {
  const x = (at: number) => ((at - since) / (until - since)) * width;
  const parts: Record<Layer, [number, number][]> = { awake: [], asleep: [], held: [], pulse: [], failed: [] };
  const marks = new Map<string, Drawing["marks"][number]>();
  for (const span of spans) {
    const from = Math.max(Date.parse(span.started_at), since);
    const to = Math.min(endOf(span, now), until);
    const layer = layerOf(span);
    if (to < from) continue;
    if (layer === undefined) {
      const isRefusal = span.kind === "refusal";
      const at = Math.round(x(from));
      marks.set(`${at} ${isRefusal}`, { x: at, isRefusal });
    } else parts[layer].push([x(from), x(to)]);
  }
  const paths = Object.fromEntries(LAYERS.map((layer) => [layer, drawParts(parts[layer])])) as Record<Layer, string>;
  return { paths, marks: [...marks.values()] };
}

function drawParts(parts: [number, number][]): string {
  const joined: [number, number][] = [];
  for (const [from, to] of parts.sort(([one], [other]) => one - other)) {
    const last = joined.at(-1);
    if (last && from <= last[1] + 0.5) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined.map(([from, to]) => `M${from.toFixed(1)} 0h${Math.max(NARROWEST, to - from).toFixed(1)}v1H${from.toFixed(1)}z`).join("");
}

export interface LaneSum {
  /** Seconds by kind. */
  asleep: number;
  awake: number;
  held: number;
  heldCalls: number;
  pulses: number;
  failed: number;
  wakes: number;
  refusals: number;
}

/** Sum up what is in the window. */
export function sumLane(spans: readonly TimelineSpan[], { since, until }: Window, now: number): LaneSum {
  const sum = { asleep: 0, awake: 0, held: 0, heldCalls: 0, pulses: 0, failed: 0, wakes: 0, refusals: 0 };
  for (const span of spans) {
    const from = Math.max(Date.parse(span.started_at), since);
    const seconds = Math.max(0, (Math.min(endOf(span, now), until) - from) / 1000);
    if (span.kind === "wake") sum.wakes++;
    else if (span.kind === "refusal") sum.refusals++;
    else if (span.kind === "pulse") {
      sum.pulses++;
      if (span.failed) sum.failed++;
    } else {
      sum[span.kind] += seconds;
      if (span.kind === "held") sum.heldCalls++;
    }
  }
  return sum;
}

/** Return a lane in words. */
export function describeLane({ asleep, heldCalls, pulses, failed, wakes, refusals }: LaneSum): string {
  return (
    `asleep for ${formatDuration(asleep)}, ${formatNumberOf(heldCalls, "held call")}, ${formatNumberOf(pulses, "pulse")}` +
    `${failed > 0 ? ` (${failed} failed)` : ""}, ${formatNumberOf(wakes, "wake")}, ${formatNumberOf(refusals, "refusal")}`
  );
}

/** Return the topmost span at a time, or the mark that is within `reach` of it. */
export function spanAt(spans: readonly TimelineSpan[], at: number, now: number, reach: number): TimelineSpan | undefined {
  const mark = spans.find((span) => layerOf(span) === undefined && Math.abs(Date.parse(span.started_at) - at) <= reach);
  if (mark) return mark;
  const here = spans.filter((span) => Date.parse(span.started_at) <= at + reach && endOf(span, now) >= at - reach && layerOf(span) !== undefined);
  return here.sort((one, other) => LAYERS.indexOf(layerOf(other)!) - LAYERS.indexOf(layerOf(one)!))[0];
}

/** Return a span in words. */
export function describeSpan(span: TimelineSpan, now: number): string {
  const reason = span.reason.replaceAll("_", " ");
  const by = span.by && `by ${span.by}`;
  const length = formatDuration((endOf(span, now) - Date.parse(span.started_at)) / 1000);
  switch (span.kind) {
    case "wake":
      return `woken ${by}: ${reason}`;
    case "refusal":
      return `wake refused, ${by}: ${reason} (${span.outcome})`;
    case "held":
      return `${span.reason}: held for ${length}${span.outcome && `, then ${span.outcome}`}`;
    case "pulse":
      return `pulse ${span.outcome || "running"}, ${length}, ${by}: ${reason}`;
    default:
      return `${span.kind} for ${length}, ${by} (${reason})`;
  }
}

/** A lane with what its page sums up. */
export interface Lane {
  lane: TimelineLane;
  sum: LaneSum;
}

/** Join the parts of agents that go on in the next page. */
export function joinLanes(pages: readonly TimelineLane[]): TimelineLane[] {
  const lanes: TimelineLane[] = [];
  for (const lane of pages) {
    const last = lanes.at(-1);
    if (last?.is_continued && last.reference === lane.reference) lanes[lanes.length - 1] = { ...lane, spans: [...last.spans, ...lane.spans] };
    else lanes.push(lane);
  }
  return lanes;
}

/** Return the lanes in an order; `costs` are those of agents by reference. */
export function orderLanes(lanes: readonly Lane[], order: Order, costs: ReadonlyMap<string, number>): Lane[] {
  if (order === "by session") return [...lanes];
  const weight = ({ lane, sum }: Lane) => (order === "by cost" ? (costs.get(lane.reference) ?? 0) : sum.asleep);
  return [...lanes].sort((one, other) => weight(other) - weight(one));
}

/** Return the mean of a figure over the whole days before today, and its values of today's quarters. */
export function splitToday(sums: readonly TimelineSum[], figure: (sum: TimelineSum) => number, today: number): { mean: number; values: number[] } {
  const days = new Map<number, number>();
  const values: number[] = [];
  for (const sum of sums) {
    const at = Date.parse(sum.at);
    if (at >= today) values.push(figure(sum));
    else days.set(Math.floor(at / DAY), (days.get(Math.floor(at / DAY)) ?? 0) + figure(sum));
  }
  const total = [...days.values()].reduce((sum, value) => sum + value, 0);
  return { mean: days.size === 0 ? 0 : total / days.size, values };
}
