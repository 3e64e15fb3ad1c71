import type { GroupUsage } from "@circadia/client";
import { Anchor, Button, Group, Select, SimpleGrid, Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";

import { DailyChart } from "../parts/daily-chart";
import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { callsAddress, filterOfUsage } from "../server/call-filter";
import { startOfDay } from "../server/clock";
import { saveCsv } from "../server/csv";
import { formatCount, formatDuration, formatNumberOf, formatUsd } from "../server/format";
import { type UsageGroup, usageQuery } from "../server/queries";
import { useViewPart } from "../server/view";

const GROUPS: Record<UsageGroup, string> = {
  agent: "Agent", model: "Model", tier: "Tier", session: "Session", upstream: "Provider",
  end_user: "End user", conversation: "Conversation", day: "Day",
}; // prettier-ignore
/** Groupings that stack the chart too; the others are too many to tell apart, so the chart shows tiers. */
const STACKED: readonly UsageGroup[] = ["agent", "model", "tier", "session", "upstream"];
const RANGES = { "0": "Today", "6": "7 days", "29": "30 days", "89": "90 days" };
const NUMBERS = [
  "calls", "failed", "unknown", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd", "unpriced", "held_seconds",
] as const; // prettier-ignore

/** What the model calls have used and cost. */
export default function UsagePage() {
  const [by, setGroupBy] = useViewPart("by", "agent");
  const groupBy = (by in GROUPS ? by : "agent") as UsageGroup;
  const [days, setDays] = useViewPart("days", "6");
  const since = startOfDay(Number(days));
  const usage = useQuery(usageQuery([groupBy], Number(days)));
  return (
    <Stack>
      <PageTitle
        about="Model calls that have ended, with tokens and list prices; days are in UTC."
        acts={
          <SaveAsCsv groups={groupBy === "day" ? ["day"] : ["day", groupBy]} daysAgo={Number(days)} />
        }
      >
        Usage
      </PageTitle>
      <Group>
        <Select
          label="By"
          data={Object.entries(GROUPS).map(([value, label]) => ({ value, label }))}
          value={groupBy}
          onChange={setGroupBy}
          allowDeselect={false}
        />
        <Select
          label="Time"
          data={Object.entries(RANGES).map(([value, label]) => ({ value, label }))}
          value={days}
          onChange={setDays}
          allowDeselect={false}
        />
      </Group>
      <DailyChart daysAgo={Number(days)} by={STACKED.includes(groupBy) ? groupBy : "tier"} />
      <QueryView query={usage}>
        {({ usage, total }) => (
          <>
            <SimpleGrid cols={{ base: 2, sm: 4 }}>
              <Stat label="Calls" href={callsAddress({ since })} note={<FailedCalls count={total.failed} since={since} />}>
                {formatCount(total.calls)}
              </Stat>
              <Stat label="Tokens" note={`${formatCount(total.cached_tokens)} cached`}>
                {formatCount(total.input_tokens + total.output_tokens)}
              </Stat>
              <Stat label="Money" note={total.unpriced > 0 ? `${formatNumberOf(total.unpriced, "call")} without a price` : undefined}>
                {formatUsd(total.cost_usd)}
              </Stat>
              <Stat label="Held">{formatDuration(total.held_seconds)}</Stat>
            </SimpleGrid>
            <VirtualTable
              label={`Usage by ${GROUPS[groupBy].toLowerCase()}`}
              rows={usage}
              rowKey={(line) => line.key}
              columns={columnsFor(groupBy, since)}
              initialSort={{ column: "cost", isDescending: true }}
              empty={
                <Empty command={`export OPENAI_BASE_URL=${location.origin}/llm/openai/v1`}>
                  No model call has ended in this time. Agents call through the gateway when their base URL leads there:
                </Empty>
              }
            />
          </>
        )}
      </QueryView>
    </Stack>
  );
}

function FailedCalls({ count, since }: { count: number; since: string }) {
  if (count === 0) return <>none failed</>;
  return (
    <Anchor component={Link} href={callsAddress({ since, status: "failed" })} size="xs" underline="always">
      {formatCount(count)} failed
    </Anchor>
  );
}

/** The key of a group, which leads to its calls. */
function CallsBehind({ groupBy, usageKey, since }: { groupBy: UsageGroup; usageKey: string; since: string }) {
  const filter = filterOfUsage(groupBy, usageKey);
  if (filter === undefined) return <Name text="none" />;
  return (
    <Anchor component={Link} href={callsAddress({ since, ...filter })} className="name" title="Show the calls">
      <Name text={usageKey} />
    </Anchor>
  );
}

function columnsFor(groupBy: UsageGroup, since: string): Column<GroupUsage>[] {
  const header = GROUPS[groupBy];
  const number = (id: string, name: string, value: (line: GroupUsage) => number, format = formatCount, isWideOnly = false): Column<GroupUsage> => ({
    id, header: name, width: "1fr", cell: (line) => format(value(line)), sortValue: value, isNumber: true, isWideOnly,
  }); // prettier-ignore
  return [
    { id: "key", header, width: "2fr", cell: (line) => <CallsBehind groupBy={groupBy} usageKey={line.key} since={since} />, sortValue: (line) => line.key },
    number("calls", "Calls", (line) => line.calls),
    number("input", "Tokens in", (line) => line.input_tokens, formatCount, true),
    number("output", "Tokens out", (line) => line.output_tokens, formatCount, true),
    number("cached", "Cached", (line) => line.cached_tokens, formatCount, true),
    number("held", "Held", (line) => line.held_seconds, formatDuration, true),
    number("cost", "Money", (line) => line.cost_usd, formatUsd),
  ];
}

/** Saves the usage of each day by the grouping: a line for each pair. */
function SaveAsCsv({ groups, daysAgo }: { groups: readonly UsageGroup[]; daysAgo: number }) {
  const client = useQueryClient();
  const saving = useMutation({
    mutationFn: () => client.fetchQuery(usageQuery(groups, daysAgo, {}, Infinity)),
    onSuccess: ({ usage }) => saveUsage(groups, usage),
    onError: (error) => notifications.show({ color: "red", title: "Not saved", message: error.message }),
  });
  return (
    <Button size="xs" variant="default" onClick={() => saving.mutate()} loading={saving.isPending}>
      Save as CSV
    </Button>
  );
}

function saveUsage(groups: readonly UsageGroup[], lines: readonly GroupUsage[]): void {
  const rows = [[...groups, ...NUMBERS], ...lines.map((line) => [...line.keys, ...NUMBERS.map((name) => line[name])])];
  saveCsv(`usage-by-${groups.join("-and-")}`, rows);
}
