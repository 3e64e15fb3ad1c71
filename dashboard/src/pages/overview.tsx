import { Alert, Anchor, Group, List, Paper, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import type { OverviewView } from "@circadia/client";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { Empty } from "../parts/empty";
import { Failure } from "../parts/failure";
import { Icon } from "../parts/icon";
import { AgentLink } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { Savings } from "../parts/savings";
import { Stat } from "../parts/stat";
import { Ago, Lasting } from "../parts/time";
import { TodaysUsage } from "../parts/todays-usage";
import { formatNumberOf } from "../server/format";
import { useLiveStatus } from "../server/live";
import { holdsQuery, overviewQuery, readinessQuery } from "../server/queries";
import { referenceOf, splitReference } from "../server/reference";
import { findProblems } from "../server/wellness";

/** Is the fleet well, what does it do, what does it cost, what did it save? */
export default function OverviewPage() {
  const query = useQuery(overviewQuery);
  const overview = query.data;
  return (
    <Stack>
      <PageTitle>Overview</PageTitle>
      <Wellness overview={overview} isUnknown={query.isError} />
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

function Wellness({ overview, isUnknown }: { overview: OverviewView | undefined; isUnknown: boolean }) {
  const status = useLiveStatus();
  const readiness = useQuery(readinessQuery);
  const problems = findProblems({
    isConnected: status !== "reconnecting",
    readiness: readiness.data,
    overview,
    isUnknown: isUnknown || readiness.isError,
  });
  if (problems.length > 0) {
    return (
      <Alert color="red" variant="outline" title="Not all is well" icon={<Icon name="warning" tone="bad" />} role="status">
        <List size="sm">
          {problems.map((problem) => (
            <List.Item key={problem} className="foreign-text">
              {problem}
            </List.Item>
          ))}
        </List>
        {overview !== undefined && overview.dead_letters > 0 && (
          <Anchor component={Link} href="/messages?state=dead" size="sm">
            Read and requeue {formatNumberOf(overview.dead_letters, "dead letter")}
          </Anchor>
        )}
      </Alert>
    );
  }
  if (overview === undefined || readiness.data === undefined) {
    return (
      <Alert color="gray" variant="outline" title="Checking the server …" role="status" />
    );
  }
  return (
    <Alert color="teal" variant="outline" title="All well" icon={<Icon name="check" tone="good" />} role="status">
      The database answers, no provider fails, nothing is overdue, and every message can be delivered.
    </Alert>
  );
}

function Fleet({ overview }: { overview: OverviewView }) {
  const holds = useQuery(holdsQuery(1));
  const longest = holds.data?.holds[0];
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
    <section aria-label="Agents now">
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
        <Stat label="Asleep" icon="asleep" tone="asleep" href="/agents?state=asleep">
          {overview.asleep}
        </Stat>
        <Stat label="Awake" icon="awake" tone="awake" href="/agents?state=awake">
          {overview.awake}
        </Stat>
        <Stat label="Pulsing" icon="pulse" tone="pulse" href="/agents?state=pulsing">
          {overview.pulsing}
        </Stat>
        <Stat
          label="Held calls"
          icon="held"
          tone="held"
          href="/holds"
          note={
            longest && (
              <>
                longest <Lasting since={longest.since} />
              </>
            )
          }
        >
          {overview.held}
        </Stat>
        <Stat label="Dreaming" icon="dream" tone="dream" href="/passes" note="passes that run or wait">
          {overview.passes}
        </Stat>
      </SimpleGrid>
    </section>
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
