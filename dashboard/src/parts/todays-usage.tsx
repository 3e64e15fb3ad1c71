import { SimpleGrid, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { formatCount, formatNumberOf, formatUsd } from "../server/format";
import { usageQuery } from "../server/queries";
import { QueryView } from "./query-view";
import { Stat } from "./stat";

const TIERS: Record<string, string> = { hot: "hot", sleep: "sleep", ready: "ready answers" };

/** Calls, tokens and money of the day, by tier. */
export function TodaysUsage() {
  const usage = useQuery(usageQuery("tier"));
  return (
    <section aria-label="Usage today">
      <Title order={2} size="h5" mb="xs">
        Today{" "}
        <Text span size="sm" c="dimmed" fw={400}>
          in UTC
        </Text>
      </Title>
      <QueryView query={usage}>
        {({ total, usage }) => {
          const byTier = (format: (line: (typeof usage)[number]) => string) =>
            usage.length > 1 ? usage.map((line) => `${TIERS[line.key] ?? line.key} ${format(line)}`).join(", ") : undefined;
          const tokens = (line: typeof total) => line.input_tokens + line.output_tokens;
          return (
            <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
              <Stat label="Calls" href="/usage" note={byTier((line) => formatCount(line.calls))}>
                {formatCount(total.calls)}
              </Stat>
              <Stat label="Tokens" href="/usage" note={byTier((line) => formatCount(tokens(line)))}>
                {formatCount(tokens(total))}
              </Stat>
              <Stat
                label="Money"
                href="/usage"
                note={total.unpriced > 0 ? `${formatNumberOf(total.unpriced, "call")} without a known price` : byTier((line) => formatUsd(line.cost_usd))}
              >
                {formatUsd(total.cost_usd)}
              </Stat>
            </SimpleGrid>
          );
        }}
      </QueryView>
    </section>
  );
}
