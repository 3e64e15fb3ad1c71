import type { TimelineLane } from "@circadia/client";
import { Group, SegmentedControl, Text, Title } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { type CSSProperties, type ReactNode, useMemo } from "react";

import { formatNumberOf } from "../server/format";
import { timelineQuery, usageQuery } from "../server/queries";
import { type Lane, orderLanes, type Order, type Range, sumLane, ticksOf, type Window, windowOf } from "../server/timeline";
import { useViewPart } from "../server/view";
import { LaneBar } from "./lane";
import { AgentLink, Name } from "./name";
import { QueryView } from "./query-view";
import { Lasting, useCoarseNow } from "./time";

export const RANGES: Range[] = ["6 h", "day", "yesterday", "7 days"];
const ORDERS: Order[] = ["by session", "by cost", "longest asleep"];
const DAYS: Record<Range, number> = { "6 h": 0, day: 0, yesterday: 1, "7 days": 7 };
const TITLES: Record<Range, string> = { "6 h": "Sleep in the last 6 hours", day: "Sleep today", yesterday: "Sleep yesterday", "7 days": "Sleep in the last 7 days" };

interface TimelineViewProps {
  /** Most agents that are shown; others are behind a link. */
  most: number;
  /** Hundreds of agents that are read. */
  pages: number;
  /** What is said of agents that are left out. */
  more: (count: number, isCut: boolean) => ReactNode;
}

/** When agents slept, were awake, had calls held and ran. */
export function TimelineView({ most, pages, more }: TimelineViewProps) {
  const [shownRange, setRange] = useViewPart("time", "day");
  const [shownOrder, setOrder] = useViewPart("order", "by session");
  const range = RANGES.find((each) => each === shownRange) ?? "day";
  const order = ORDERS.find((each) => each === shownOrder) ?? "by session";
  const timeline = useQuery(timelineQuery(range, {}, pages));
  const usage = useQuery({ ...usageQuery(["agent"], DAYS[range]), enabled: order === "by cost" });
  const now = useCoarseNow();
  const window = useMemo(() => windowOf(range, now), [range, now]);
  const costs = useMemo(() => new Map(usage.data?.usage.map(({ key, cost_usd }) => [key, cost_usd])), [usage.data]);
  const lanes = timeline.data?.lanes;
  const summed = useMemo(() => lanes?.map((lane): Lane => ({ lane, sum: sumLane(lane.spans, window, now) })) ?? [], [lanes, window, now]);
  const shown = useMemo(() => orderLanes(summed, order, costs).slice(0, most), [summed, order, costs, most]);
  return (
    <section aria-label="Timeline" className="timeline">
      <Group justify="space-between" gap="xs" mb="xs">
        <Title order={2} size="h5">
          {TITLES[range]}{" "}
          <Text span size="sm" c="dimmed" fw={400}>
            in UTC
          </Text>
        </Title>
        <Legend />
        <Group gap="xs">
          <SegmentedControl aria-label="Time" size="xs" value={range} onChange={setRange} data={RANGES} />
          <SegmentedControl aria-label="Order" size="xs" value={order} onChange={setOrder} data={ORDERS} />
        </Group>
      </Group>
      <QueryView query={timeline} height={300}>
        {({ lanes, isCut }) => (
          <>
            <Lanes lanes={shown} all={lanes} window={window} now={now} bySession={order === "by session"} />
            {more(lanes.length - shown.length, isCut)}
          </>
        )}
      </QueryView>
    </section>
  );
}

interface LanesProps {
  lanes: readonly Lane[];
  /** Those too that are not shown, for the counts of their sessions. */
  all: readonly TimelineLane[];
  window: Window;
  now: number;
  bySession: boolean;
}

function Lanes({ lanes, all, window, now, bySession }: LanesProps) {
  const { ref, width } = useElementSize();
  let session: string | undefined;
  const longest = Math.max(0, ...lanes.map(({ lane }) => lane.reference.length));
  return (
    <div className="lanes" style={{ "--lane-name": `${longest + 1}ch` } as CSSProperties}>
      <div className="lane lane-scale">
        <span />
        <div ref={ref}>
          <Scale window={window} now={now} width={width} />
        </div>
      </div>
      <ul aria-label="Agents">
        {lanes.map(({ lane, sum }) => {
          const isFirst = bySession && lane.session !== session;
          session = lane.session;
          return (
            <li key={`${lane.reference} ${lane.since}`}>
              {isFirst && <SessionLine session={lane.session} lanes={all} />}
              <div className="lane">
                <AgentLink reference={lane.reference} />
                <LaneBar label={lane.reference} spans={lane.spans} window={window} now={now} width={width} />
                <LaneState lane={lane} held={sum.heldCalls > 0 ? countHeld(lane) : 0} />
              </div>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function countHeld({ spans }: TimelineLane): number {
  return spans.filter(({ kind, ended_at }) => kind === "held" && ended_at === null).length;
}

function SessionLine({ session, lanes }: { session: string; lanes: readonly TimelineLane[] }) {
  const members = lanes.filter((lane) => lane.session === session);
  return (
    <Group justify="space-between" gap="xs" className="lane-session" wrap="nowrap">
      <Text size="xs" fw={600} component="span" style={{ minWidth: 0 }}>
        <Name text={session} />
      </Text>
      <Text size="xs" c="dimmed" component="span" style={{ whiteSpace: "nowrap" }}>
        {members.filter(({ asleep }) => asleep).length} of {members.length} asleep
      </Text>
    </Group>
  );
}

function LaneState({ lane, held }: { lane: TimelineLane; held: number }) {
  return (
    <>
      <Text size="xs" component="span" className="lane-state">
        <span className={`dot span-${lane.asleep ? "asleep" : "awake"}`} aria-hidden="true" />
        <span>
          {lane.asleep ? "asleep" : "awake"} <Lasting since={lane.since} />
          {held > 0 && <span style={{ color: "var(--tone-held)", fontWeight: 600 }}> · {held} held</span>}
        </span>
      </Text>
      <Text size="xs" c="dimmed" component="span" className="wide-only" style={{ minWidth: 0 }}>
        <Name text={describeChange(lane)} />
      </Text>
    </>
  );
}

/** Who or what changed the state last. */
function describeChange({ by, spans }: TimelineLane): string {
  const present = spans.findLast(({ kind, ended_at }) => ended_at === null && (kind === "asleep" || kind === "awake"));
  return present?.reason === "event" || by.includes(" by ") ? by.replaceAll("_", " ") : `by ${by}`;
}

export function Scale({ window, now, width }: { window: Window; now: number; width: number }) {
  const x = ((now - window.since) / (window.until - window.since)) * width;
  return (
    <svg width={width} height={22} aria-hidden="true" className="scale">
      <defs>
        <pattern id="held" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <path d="M0 0h6v6H0z" className="held-light" />
          <path d="M0 0h3v6H0z" className="held-dark" />
        </pattern>
      </defs>
      {ticksOf(window, width).map(({ at, x, label }) => (
        <text key={at} x={x} y={12} fontSize="11" textAnchor="middle" fill="var(--mantine-color-dimmed)">
          {label}
        </text>
      ))}
      {now < window.until && <path d={`M${x} 22l-4-5h8z`} fill="var(--mantine-color-text)" />}
    </svg>
  );
}

export function Legend() {
  return (
    <Group gap="sm" className="legend">
      {(["asleep", "awake", "held", "pulse", "failed"] as const).map((layer) => (
        <Text key={layer} size="xs" c="dimmed" component="span">
          <span className={`dot span-${layer}`} aria-hidden="true" /> {layer === "held" ? "call held" : layer}
        </Text>
      ))}
      <Text size="xs" c="dimmed" component="span">
        <span className="legend-wake">▲</span> woken
      </Text>
      <Text size="xs" c="dimmed" component="span">
        <span className="legend-refusal">✕</span> wake refused
      </Text>
    </Group>
  );
}

/** A sentence on the agents that a timeline leaves out; empty without any. */
export function describeRest(count: number, isCut: boolean): string {
  if (isCut) return `${formatNumberOf(count, "more agent")} of those that were read, and others`;
  return count === 0 ? "" : formatNumberOf(count, "more agent");
}
