import { Anchor, Group, Paper, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import type { OverviewView } from "@circadia/client";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { Attention } from "../parts/attention";
import { Circles } from "../parts/circles";
import { Empty } from "../parts/empty";
import { Failure } from "../parts/failure";
import { Figures } from "../parts/figures";
import { Icon } from "../parts/icon";
import { LastChange } from "../parts/last-change";
import { Money, Spenders } from "../parts/money";
import { AgentLink } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { Savings } from "../parts/savings";
import { Ago } from "../parts/time";
import { describeRest, TimelineView } from "../parts/timeline-view";
import { TodaysUsage } from "../parts/todays-usage";
import { overviewQuery } from "../server/queries";
import { referenceOf, splitReference } from "../server/reference";

/** Agents in the overview's timeline; all are on its page. */
const MOST_LANES = 20;

/** What needs a person, what the fleet does, what it costs, what it saves. */
export default function OverviewPage() {
  const query = useQuery(overviewQuery);
  const overview = query.data;
  return (
    <Stack>
      <PageTitle>Overview</PageTitle>
      <Attention overview={overview} isUnknown={query.isError} />
      {overview ? (
        <>
          <Fleet overview={overview} />
          <TodaysUsage overview={overview} />
          <Savings overview={overview} />
          <Alerts overview={overview} />
        </>
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Skeleton height={400} aria-busy="true" aria-label="Loading" role="status" />
      )}
    </Stack>
  );
}

function Fleet({ overview }: { overview: OverviewView }) {
  if (overview.asleep + overview.awake === 0) {
    return (
      <Paper withBorder>
        <Empty command="circadia agents add writer">
          There is no agent yet. Create one, or let the configuration name your agents.
        </Empty>
      </Paper>
    );
  }
  return (
    <>
      <Figures overview={overview} />
      <TimelineView most={MOST_LANES} pages={1} more={(count, isCut) => <Rest count={count} isCut={isCut} />} />
      <SimpleGrid cols={{ base: 1, md: 3 }} spacing="sm">
        <Money />
        <Spenders />
        <Stack component="section" aria-label="Watch" className="panel" gap="sm">
          <Circles />
          <LastChange overview={overview} />
        </Stack>
      </SimpleGrid>
    </>
  );
}

function Rest({ count, isCut }: { count: number; isCut: boolean }) {
  const rest = describeRest(count, isCut);
  return (
    <Text size="sm" mt="xs">
      {rest && `${rest}. `}
      <Anchor component={Link} href="/timeline" size="sm">
        All agents
      </Anchor>
    </Text>
  );
}

function Alerts({ overview: { alerts } }: { overview: OverviewView }) {
  return (
    <section aria-label="Alerts">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Alerts of the last 24 hours
        </Title>
        <Anchor component={Link} href="/for-you?tab=alerts&alerts=all" size="sm">
          All alerts
        </Anchor>
      </Group>
      {alerts.length === 0 ? (
        <Text size="sm">None. Dead letters, open circuits and spent budgets would be here.</Text>
      ) : (
        <Stack gap={4}>
          {alerts.map(({ cause, subject, at }) => (
            <Group key={`${cause} ${subject}`} gap="xs" wrap="nowrap">
              <Icon name="warning" tone="quiet" />
              <Text size="sm" component="div" style={{ flex: 1, minWidth: 0 }}>
                {cause.replaceAll("_", " ")} {subject && <AgentLink reference={shortReference(subject)} />}
              </Text>
              <Text size="sm" c="dimmed" style={{ whiteSpace: "nowrap" }}>
                <Ago at={at} />
              </Text>
            </Group>
          ))}
        </Stack>
      )}
    </section>
  );
}

function shortReference(subject: string): string {
  const { session, agent } = splitReference(subject);
  return referenceOf(session, agent);
}
