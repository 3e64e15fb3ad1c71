import type { PassView, SleeptimeView } from "@circadia/client";
import { Alert, SimpleGrid, Stack, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { Icon } from "../parts/icon";
import { PageTitle } from "../parts/page-title";
import { PassHistory } from "../parts/pass-history";
import { PassQueue } from "../parts/pass-queue";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { callsAddress } from "../server/call-filter";
import { startOfDay } from "../server/clock";
import { describeCost } from "../server/describe-pass";
import { formatCount, formatDuration, formatUsd } from "../server/format";
import { sleeptimeQuery } from "../server/queries";

/** Passes over all banks: what waits, what runs, what there was, and what it costs. */
export default function PassesPage() {
  const sleeptime = useQuery(sleeptimeQuery);
  return (
    <Stack>
      <PageTitle about="Passes work over memory while nobody waits: they derive notes, write blocks and prepare answers.">Passes</PageTitle>
      <QueryView query={sleeptime}>{(sleeptime) => <Present sleeptime={sleeptime} />}</QueryView>
      <PassHistory />
    </Stack>
  );
}

function Present({ sleeptime }: { sleeptime: SleeptimeView }) {
  const count = (...statuses: PassView["status"][]) => statuses.reduce((sum, status) => sum + (sleeptime.passes[status] ?? 0), 0);
  return (
    <>
      {sleeptime.red.map((problem) => (
        <Alert key={problem} color="red" variant="outline" role="alert" title="Passes fail" icon={<Icon name="warning" tone="bad" />}>
          {problem}
        </Alert>
      ))}
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
        <Stat label="Waiting">{formatCount(count("pending"))}</Stat>
        <Stat label="Running" icon="passes" tone="dream">
          {formatCount(count("running"))}
        </Stat>
        <Stat label="Oldest turn waits">{sleeptime.lag_seconds > 0 ? formatDuration(sleeptime.lag_seconds) : "none waits"}</Stat>
        <Stat label="Spent in 24 hours" note={describeCost(sleeptime.spent)} href={callsAddress({ tier: "sleep", since: startOfDay(1) })}>
          {formatUsd(sleeptime.spent.usd)}
        </Stat>
      </SimpleGrid>
      <section aria-label="Queue">
        <Title order={2} size="h5" mb="xs">
          Banks with work
        </Title>
        <PassQueue banks={sleeptime.banks} more={sleeptime.more} />
      </section>
    </>
  );
}
