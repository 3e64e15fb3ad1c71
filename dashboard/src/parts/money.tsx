import { Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { formatUsd } from "../server/format";
import { usageQuery } from "../server/queries";
import { lastDays, stackByDay } from "../server/usage-by-day";
import { COMPARED_DAYS } from "./figures";
import { AgentLink } from "./name";
import { QueryView } from "./query-view";
import { StackedBars } from "./stacked-bars";

const NAMES: Record<string, string> = { hot: "agents", sleep: "dreaming", ready: "ready answers" };
const SPENDERS = 6;

/** Money of the last 14 days, by tier. */
export function Money() {
  const usage = useQuery(usageQuery(["day", "tier"], COMPARED_DAYS));
  return (
    <section aria-label="Money" className="panel">
      <Title order={2} size="h5" mb="xs">
        Money, 14 days
      </Title>
      <QueryView query={usage}>
        {({ usage }) => {
          const named = usage.map((line) => ({ ...line, keys: [line.keys[0]!, NAMES[line.keys[1]!] ?? line.keys[1]!] }));
          const bars = stackByDay(named, lastDays(COMPARED_DAYS), (line) => line.cost_usd);
          return <StackedBars label="Money a day" bars={bars} format={formatUsd} />;
        }}
      </QueryView>
    </section>
  );
}

/** Who spends most in seven days. */
export function Spenders() {
  const usage = useQuery(usageQuery(["agent"], 6));
  return (
    <section aria-label="Who spends" className="panel">
      <Title order={2} size="h5" mb="xs">
        Who spends, 7 days
      </Title>
      <QueryView query={usage}>
        {({ usage, total }) => {
          const spenders = usage.filter(({ cost_usd }) => cost_usd > 0).sort((one, other) => other.cost_usd - one.cost_usd).slice(0, SPENDERS);
          if (spenders.length === 0) return <Text size="sm">No call with a known price.</Text>;
          return (
            <Stack gap={4} component="ul" className="plain-list">
              {spenders.map(({ key, cost_usd }) => (
                <li key={key} className="spender">
                  <AgentLink reference={key} />
                  <span>{formatUsd(cost_usd)}</span>
                  <span className="share" aria-hidden="true">
                    <span style={{ width: `${(cost_usd / spenders[0]!.cost_usd) * 100}%` }} />
                  </span>
                  <Text size="xs" c="dimmed" component="span">
                    {Math.round((cost_usd / total.cost_usd) * 100)} %
                  </Text>
                </li>
              ))}
            </Stack>
          );
        }}
      </QueryView>
    </section>
  );
}
