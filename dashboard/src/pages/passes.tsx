import type { SleeptimeStatusView } from "@circadia/client";
import { Anchor, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { PassTable } from "../parts/pass-table";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { formatCount, formatDuration, formatUsd } from "../server/format";
import { sleeptimeQuery } from "../server/queries";

const COLUMNS: Column<SleeptimeStatusView>[] = [
  {
    id: "bank",
    header: "Bank",
    width: "2fr",
    cell: (status) => (
      <Anchor component={Link} href={`/banks/${encodeURIComponent(status.bank)}?tab=passes`} className="name">
        <Name text={status.bank} />
      </Anchor>
    ),
    sortValue: (status) => status.bank,
  },
  { id: "backlog", header: "Episodes", width: "5rem", cell: (status) => formatCount(status.backlog.episodes), sortValue: (status) => status.backlog.episodes, isNumber: true },
  { id: "lag", header: "Oldest waits", width: "7rem", cell: (status) => formatDuration(status.lag_seconds), sortValue: (status) => status.lag_seconds },
  { id: "why", header: "Why", width: "4fr", cell: (status) => <Name text={status.red || status.verdict.why} />, isWideOnly: true },
];

/** Sleep-time work over all banks: what runs, what waits, what it costs. */
export default function PassesPage() {
  const sleeptime = useQuery(sleeptimeQuery);
  return (
    <Stack>
      <PageTitle about="Passes tidy up the memory while nobody waits. Each can be undone as a whole.">Passes</PageTitle>
      <QueryView query={sleeptime}>
        {(sleeptime) => (
          <>
            <SimpleGrid cols={{ base: 2, sm: 4 }}>
              <Stat label="Running">{sleeptime.passes.running ?? 0}</Stat>
              <Stat label="Waiting">{sleeptime.passes.pending ?? 0}</Stat>
              <Stat label="Tokens within 24 hours">{formatCount(sleeptime.spent.tokens)}</Stat>
              <Stat label="Cost within 24 hours">{formatUsd(sleeptime.spent.usd)}</Stat>
            </SimpleGrid>
            <Title order={2} size="h5">
              Open passes
            </Title>
            <PassTable label="Open passes" passes={sleeptime.banks.flatMap(({ running }) => (running ? [running] : []))} />
            <Title order={2} size="h5">
              Banks with work
            </Title>
            <VirtualTable
              label="Banks with work"
              rows={sleeptime.banks}
              rowKey={(status) => status.bank}
              columns={COLUMNS}
              initialSort={{ column: "lag", isDescending: true }}
              empty={
                <Text size="sm" p="md">
                  No bank waits for a pass. The history of a bank is on its own page, below Memory.
                </Text>
              }
            />
            {sleeptime.more > 0 && <Text size="sm">{formatCount(sleeptime.more)} more banks have work.</Text>}
          </>
        )}
      </QueryView>
    </Stack>
  );
}
