import type { GroupUsage, OverviewView } from "@circadia/client";
import { SimpleGrid, Text, Title } from "@mantine/core";

import { callsAddress } from "../server/call-filter";
import { startOfDay } from "../server/clock";
import { formatCount, formatNumberOf, formatUsd } from "../server/format";
import { Stat } from "./stat";

const TIERS: Record<string, string> = { hot: "hot", sleep: "sleep", ready: "ready answers" };

/** Calls, tokens and money of the day, by tier. */
export function TodaysUsage({ overview: { usage_today: lines } }: { overview: OverviewView }) {
  const sum = (value: (line: GroupUsage) => number) => lines.reduce((total, line) => total + value(line), 0);
  const byTier = (value: (line: GroupUsage) => number, format: (value: number) => string) =>
    lines.length > 1 ? lines.map((line) => `${TIERS[line.key] ?? line.key} ${format(value(line))}`).join(", ") : undefined;
  const calls = (line: GroupUsage) => line.calls;
  const tokens = (line: GroupUsage) => line.input_tokens + line.output_tokens;
  const usd = (line: GroupUsage) => line.cost_usd;
  const behind = callsAddress({ since: startOfDay() });
  const unpriced = sum((line) => line.unpriced);
  return (
    <section aria-label="Usage today">
      <Title order={2} size="h5" mb="xs">
        Today{" "}
        <Text span size="sm" c="dimmed" fw={400}>
          in UTC
        </Text>
      </Title>
      <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
        <Stat label="Calls" href={behind} note={byTier(calls, formatCount)}>
          {formatCount(sum(calls))}
        </Stat>
        <Stat label="Tokens" href={behind} note={byTier(tokens, formatCount)}>
          {formatCount(sum(tokens))}
        </Stat>
        <Stat
          label="Money"
          href={behind}
          note={unpriced > 0 ? `${formatNumberOf(unpriced, "call")} without a known price` : byTier(usd, formatUsd)}
        >
          {formatUsd(sum(usd))}
        </Stat>
      </SimpleGrid>
    </section>
  );
}
