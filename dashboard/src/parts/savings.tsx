import { SimpleGrid, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { formatCount, formatDuration, formatUsd } from "../server/format";
import { matrixQuery, sleeptimeQuery, usageQuery } from "../server/queries";
import { Stat } from "./stat";

/** What sleep, guardrails and passes have saved, as far as the server measures it, net of their own cost. */
export function Savings() {
  const usage = useQuery(usageQuery("tier"));
  const pairs = useQuery(matrixQuery());
  const sleeptime = useQuery(sleeptimeQuery);
  const refused = pairs.data?.reduce((sum, { decisions }) => sum + (decisions.refused ?? 0) + (decisions.coalesced ?? 0), 0);
  const balances = sleeptime.data?.banks.flatMap((bank) => bank.balances) ?? [];
  const net = (saved: "saved_tokens" | "saved_usd", spent: "spent_tokens" | "spent_usd") =>
    balances.reduce((sum, balance) => sum + balance[saved] - balance[spent], 0);
  const served = usage.data?.usage.find((line) => line.key === "ready")?.calls ?? 0;
  return (
    <section aria-label="Saved">
      <Title order={2} size="h5" mb="xs">
        Saved
      </Title>
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }} spacing="sm">
        <Stat label="Calls held while asleep" note="waiting time of the calls that ended today; it cost no token">
          {usage.data ? formatDuration(usage.data.total.held_seconds) : "–"}
        </Stat>
        <Stat label="Wakes refused or joined today" href="/wakes" note="runs that did not start">
          {refused === undefined ? "–" : formatCount(refused)}
        </Stat>
        <Stat label="Ready answers served today" note="calls that no provider answered">
          {usage.data ? formatCount(served) : "–"}
        </Stat>
        <Stat
          label="Passes, net"
          note={`${formatCount(net("saved_tokens", "spent_tokens"))} tokens: saved by passes less their cost, in banks with work`}
        >
          {sleeptime.data ? formatUsd(net("saved_usd", "spent_usd")) : "–"}
        </Stat>
      </SimpleGrid>
    </section>
  );
}
