import type { ChangeView, PassDetail } from "@circadia/client";
import { Anchor, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "wouter";

import { ActButton } from "../parts/act-button";
import { ChangeList } from "../parts/change-list";
import { ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { PassLedger } from "../parts/pass-ledger";
import { PassProgress } from "../parts/pass-progress";
import { PassStatus } from "../parts/pass-status";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { DateTime } from "../parts/time";
import { callsAddress } from "../server/call-filter";
import { circadia } from "../server/circadia";
import { describeCost, describeEffect, isOpen } from "../server/describe-pass";
import { formatDuration, formatNumberOf, formatUsd } from "../server/format";
import { changesQuery, passQuery } from "../server/queries";

/** One pass: what it changed or proposes, and what it cost. */
export default function PassPage() {
  const { pass = "" } = useParams<{ pass: string }>();
  const query = useQuery(passQuery(pass));
  const changes = useQuery(changesQuery(pass));
  return (
    <QueryView query={query}>
      {(pass) => (
        <Stack>
          <PageTitle acts={<PassPageActs pass={pass} changes={changes.data ?? []} />}>{`Pass over ${pass.bank}`}</PageTitle>
          <PassFacts pass={pass} />
          <section aria-label="Changes">
            <Title order={2} size="h5" mb="xs">
              Changes
            </Title>
            <QueryView query={changes}>{(changes) => <ChangeList pass={pass} changes={changes} />}</QueryView>
          </section>
          <PassLedger pass={pass} />
        </Stack>
      )}
    </QueryView>
  );
}

function PassFacts({ pass }: { pass: PassDetail }) {
  return (
    <>
      <Text size="sm" component="div">
        Asked for <DateTime at={pass.created_at} />.{" "}
        {pass.dry_run && "A dry run: nothing is written. "}
        {pass.review && "Its proposals wait for a person. "}
        <Anchor component={Link} href={`/banks/${encodeURIComponent(pass.bank)}?tab=passes`} size="sm" underline="always">
          All passes over this bank
        </Anchor>
      </Text>
      {pass.instructions && <ForeignText text={pass.instructions} />}
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 5 }}>
        <Stat label="Trigger" note={pass.by && <>by <Name text={pass.by} /></>}>
          {pass.trigger}
        </Stat>
        <Stat label="Status" note={pass.detail}>
          <PassStatus status={pass.status} />
        </Stat>
        <Stat label="Effect">
          <Text size="sm">{describeEffect(pass)}</Text>
        </Stat>
        <Stat label="Cost" note={describeCost(pass.spent)} href={callsOf(pass)}>
          {formatUsd(pass.spent.usd)}
        </Stat>
        <Stat label="Ran for" note={`attempt ${pass.attempt}`}>
          {formatDuration(pass.run_seconds)}
        </Stat>
      </SimpleGrid>
      {isOpen(pass) && <PassProgress pass={pass} />}
    </>
  );
}

/** The address of the calls that the pass has made. */
function callsOf(pass: PassDetail): string {
  const until = pass.ended_at === null ? {} : { until: new Date(Date.parse(pass.ended_at) + 1).toISOString() };
  return callsAddress({ tier: "sleep", agent: pass.bank, since: pass.created_at, ...until });
}

function PassPageActs({ pass, changes }: { pass: PassDetail; changes: readonly ChangeView[] }) {
  const path = { pass: pass.id };
  const published = changes.filter(({ state }) => state === "published").length;
  return (
    <Group gap="xs">
      {isOpen(pass) ? (
        <ActButton
          act={() => circadia.cancelPass({ path })}
          success="The pass is cancelled."
          warning="The pass ends. What it has published stays, and the rest of its input waits for the next one."
        >
          Cancel
        </ActButton>
      ) : (
        <ActButton
          act={() => circadia.undoPass({ path })}
          success="The changes of the pass are undone."
          warning={`Undoes ${formatNumberOf(published, "published change")}. A block that others have changed since keeps their lines.`}
          barrier={published === 0 ? "The pass has published nothing." : undefined}
        >
          Undo all
        </ActButton>
      )}
    </Group>
  );
}
