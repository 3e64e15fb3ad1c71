import type { OverviewView } from "@circadia/client";
import { SimpleGrid, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { formatCount, formatDuration, formatNumberOf, formatUsd } from "../server/format";
import { savingsQuery } from "../server/queries";
import { COMPARED_DAYS } from "./figures";
import { Stat } from "./stat";

/** What sleep, guardrails, passes and ready answers have saved today, net of their own cost. */
export function Savings({ overview }: { overview: OverviewView }) {
  const { usage_today: lines, wakes_today: wakes } = overview;
  const asleep = useQuery(savingsQuery(COMPARED_DAYS)).data?.days.at(-1)?.sleeping_usd ?? 0;
  const held = lines.reduce((total, line) => total + line.held_seconds, 0);
  const cost = lines.find(({ key }) => key === "sleep");
  const spentTokens = cost ? cost.input_tokens + cost.output_tokens : 0;
  const spentUsd = cost?.cost_usd ?? 0;
  const tokens = overview.saved_tokens_today - spentTokens;
  return (
    <section aria-label="Saved today">
      <Title order={2} size="h5" mb="xs">
        Saved today, estimate
      </Title>
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }} spacing="sm">
        <Stat
          label="Waiting while asleep"
          note={`of the calls that ended today; an agent that asks every 5 minutes would have paid ${formatUsd(asleep)}, at the mean price of its model's calls`}
        >
          {formatDuration(held)}
        </Stat>
        <Stat label="Wakes refused or joined" href="/wakes" note="runs that did not start">
          {formatCount((wakes.refused ?? 0) + (wakes.coalesced ?? 0))}
        </Stat>
        <Stat label="Ready answers served" note={`${formatNumberOf(overview.hints_today, "hint")}, ${formatNumberOf(overview.misses_today, "miss", "misses")}`}>
          {formatCount(overview.served_today)}
        </Stat>
        <Stat
          label="Sleep-time work, net"
          href="/passes"
          note={
            `saved ${formatNumberOf(overview.saved_tokens_today, "token")} (${formatUsd(overview.saved_usd_today)}), ` +
            `spent ${formatCount(spentTokens)} (${formatUsd(spentUsd)})`
          }
        >
          {formatNumberOf(tokens, "token")}
        </Stat>
      </SimpleGrid>
    </section>
  );
}
