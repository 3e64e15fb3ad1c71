import type { GroupUsage, OverviewView, TimelineSum } from "@circadia/client";
import { SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { startOfDay } from "../server/clock";
import { formatCount, formatDuration, formatNumberOf, formatUsd } from "../server/format";
import { holdsQuery, savingsQuery, timelineSumsQuery, usageQuery } from "../server/queries";
import { splitToday } from "../server/timeline";
import { lastDays } from "../server/usage-by-day";
import { AgentLink } from "./name";
import { Sparkline } from "./sparkline";
import { Stat } from "./stat";
import { Lasting } from "./time";

/** Days before today that a figure is compared with. */
export const COMPARED_DAYS = 13;
const QUARTER_SECONDS = 900;

/** The fleet in five figures, each with the line of the day, or of the days, beside its mean. */
export function Figures({ overview }: { overview: OverviewView }) {
  const sums = useQuery(timelineSumsQuery(COMPARED_DAYS)).data ?? [];
  return (
    <section aria-label="Agents now">
      <SimpleGrid cols={{ base: 1, xs: 2, sm: 3, lg: 5 }} spacing="sm">
        <Asleep overview={overview} sums={sums} />
        <Held overview={overview} sums={sums} />
        <InPulse overview={overview} sums={sums} />
        <Spent />
        <Saved />
      </SimpleGrid>
    </section>
  );
}

interface FigureProps {
  overview: OverviewView;
  sums: readonly TimelineSum[];
}

function Asleep({ overview, sums }: FigureProps) {
  const asleep = split(sums, (sum) => sum.asleep_seconds);
  const awake = split(sums, (sum) => sum.awake_seconds);
  const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);
  const all = total(asleep.values) + total(awake.values);
  const before = asleep.mean + awake.mean;
  return (
    <Stat
      label="Asleep"
      icon="asleep"
      tone="asleep"
      href="/agents?state=asleep"
      note={
        all > 0 && (
          <>
            {percent(total(asleep.values) / all)} of the agent hours of today
            {before > 0 && `; ${COMPARED_DAYS}-day mean ${percent(asleep.mean / before)}`}
          </>
        )
      }
    >
      {overview.asleep} <small className="figure-of">of {overview.asleep + overview.awake}</small>
      <Sparkline label="Agents asleep today" values={asleep.values.map((value) => value / QUARTER_SECONDS)} colour="var(--tone-asleep)" />
    </Stat>
  );
}

function Held({ overview, sums }: FigureProps) {
  const longest = useQuery(holdsQuery(1)).data?.holds[0];
  const held = split(sums, (sum) => sum.held_seconds);
  return (
    <Stat
      label="Held calls"
      icon="held"
      tone="held"
      href="/holds"
      note={
        <>
          {longest && (
            <>
              longest <Lasting since={longest.since} />, <AgentLink reference={longest.reference} />
              {"; "}
            </>
          )}
          {COMPARED_DAYS}-day mean {formatDuration(held.mean)} a day
        </>
      }
    >
      {overview.held}
      <Sparkline label="Calls held today" values={held.values.map((value) => value / QUARTER_SECONDS)} colour="var(--tone-held)" />
    </Stat>
  );
}

function InPulse({ overview, sums }: FigureProps) {
  const pulse = split(sums, (sum) => sum.pulse_seconds);
  const wakes = split(sums, (sum) => sum.wakes);
  const { admitted = 0, refused = 0 } = overview.wakes_today;
  return (
    <Stat
      label="Pulsing"
      icon="pulse"
      tone="pulse"
      href="/agents?state=pulsing"
      note={`${formatNumberOf(admitted, "wake")} admitted, ${formatCount(refused)} refused today; ${COMPARED_DAYS}-day mean ${formatCount(wakes.mean)} admitted`}
    >
      {overview.pulsing}
      <Sparkline label="Pulses today" values={pulse.values.map((value) => value / QUARTER_SECONDS)} colour="var(--tone-pulse)" />
    </Stat>
  );
}

function Spent() {
  const lines = useQuery(usageQuery(["day", "tier"], COMPARED_DAYS)).data?.usage ?? [];
  const days = lastDays(COMPARED_DAYS);
  const cost = (day: string, isSleep?: boolean) =>
    lines
      .filter(({ keys }) => keys[0] === day && (isSleep === undefined || (keys[1] === "sleep") === isSleep))
      .reduce((sum, { cost_usd }: GroupUsage) => sum + cost_usd, 0);
  const values = days.map((day) => cost(day));
  const today = days.at(-1)!;
  const mean = values.slice(0, -1).reduce((sum, value) => sum + value, 0) / COMPARED_DAYS;
  return (
    <Stat
      label="Spent today"
      href="/usage"
      note={`agents ${formatUsd(cost(today, false))}, dreaming ${formatUsd(cost(today, true))}; ${COMPARED_DAYS}-day mean ${formatUsd(mean)}`}
    >
      {formatUsd(cost(today))}
      <Sparkline label="Money in 14 days" values={values} mean={mean} colour="var(--tone-asleep)" />
    </Stat>
  );
}

function Saved() {
  const savings = useQuery(savingsQuery(COMPARED_DAYS)).data;
  const today = savings?.days.at(-1);
  if (savings === undefined || today === undefined) return <Stat label="Saved today, estimate">…</Stat>;
  const mean = savings.mean_usd ?? 0;
  return (
    <Stat
      label="Saved today, estimate"
      href="/usage?tab=savings"
      tone="good"
      note={`sleeping ${formatUsd(today.sleeping_usd)}, memory ${formatUsd(today.memory_usd)}, dreaming ${formatUsd(-today.dreaming_usd)}; ${COMPARED_DAYS}-day mean ${formatUsd(mean)}`}
    >
      {formatUsd(today.saved_usd)}
      <Sparkline label="Saved in 14 days" values={savings.days.map(({ saved_usd }) => saved_usd)} mean={mean} colour="var(--tone-good)" />
    </Stat>
  );
}

function split(sums: readonly TimelineSum[], figure: (sum: TimelineSum) => number) {
  return splitToday(sums, figure, Date.parse(startOfDay()));
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
