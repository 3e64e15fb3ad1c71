import type { AnswerStats as Stats, BalanceView } from "@circadia/client";
import { SimpleGrid, Stack } from "@mantine/core";

import { formatCount, formatUsd } from "../server/format";
import { StackedBars } from "./stacked-bars";
import { Stat } from "./stat";

/** How often ready answers are found, whether they are right, and what they save and waste. */
export function AnswerStats({ stats, balance }: { stats: Stats; balance: BalanceView | undefined }) {
  const share = (value: number | null) => (value === null ? "–" : `${Math.round(value * 100)} %`);
  const bars = stats.days.map(({ day, served, hints, misses }) => ({
    label: day,
    parts: [
      { name: "served", value: served },
      { name: "hints", value: hints },
      { name: "misses", value: misses },
    ],
  }));
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, md: 6 }}>
        <Stat label="Ready">{formatCount(stats.live)}</Stat>
        <Stat label="Served">{share(stats.hit_rate)}</Stat>
        <Stat label="Hints">{share(stats.hint_rate)}</Stat>
        <Stat label="Right" note={`${formatCount(stats.samples)} sampled`}>
          {share(stats.precision)}
        </Stat>
        <Stat label="Saved tokens" note={balance && `${formatUsd(balance.saved_usd)}, for ${formatUsd(balance.spent_usd)} spent`}>
          {formatCount(balance?.saved_tokens ?? 0)}
        </Stat>
        <Stat label="Wasted tokens" note="of answers that nobody used">
          {formatCount(stats.wasted_tokens)}
        </Stat>
      </SimpleGrid>
      {bars.length > 0 && <StackedBars label="Lookups by day" bars={bars} format={formatCount} />}
    </Stack>
  );
}
