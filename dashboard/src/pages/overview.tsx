import { Alert, Anchor, Group, List, Paper, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { Empty } from "../parts/empty";
import { Icon } from "../parts/icon";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Savings } from "../parts/savings";
import { Stat } from "../parts/stat";
import { Ago, Lasting, useServerNow } from "../parts/time";
import { TodaysUsage } from "../parts/todays-usage";
import { describeAlert, findProblems } from "../server/health";
import { useLiveStatus } from "../server/live";
import { alertsQuery, clusterQuery, countsQuery, holdsQuery, readinessQuery, sleeptimeQuery, upstreamErrorsQuery } from "../server/queries";

/** Is the fleet well, what does it do, what does it cost, what did it save? */
export default function OverviewPage() {
  return (
    <Stack>
      <PageTitle>Overview</PageTitle>
      <Wellness />
      <Fleet />
      <TodaysUsage />
      <Savings />
      <Alerts />
    </Stack>
  );
}

function Wellness() {
  const status = useLiveStatus();
  const readiness = useQuery(readinessQuery);
  const alerts = useQuery(alertsQuery);
  const upstreamErrors = useQuery(upstreamErrorsQuery);
  const sleeptime = useQuery(sleeptimeQuery);
  const members = useQuery(clusterQuery);
  const now = useServerNow();
  const known = [readiness, alerts, upstreamErrors, sleeptime];
  const problems = findProblems({
    now,
    isConnected: status !== "reconnecting",
    readiness: readiness.data,
    alerts: alerts.data ?? [],
    upstreamErrors: upstreamErrors.data ?? [],
    red: sleeptime.data?.red ?? [],
  });
  if (problems.length > 0) {
    return (
      <Alert color="red" variant="outline" title="Not all is well" icon={<Icon name="warning" tone="bad" />} role="status">
        <List size="sm">
          {problems.map((problem) => (
            <List.Item key={`${problem.about} ${problem.text}`}>
              <Text span size="sm" className="foreign-text">
                {problem.text}
              </Text>{" "}
              {problem.at && (
                <Text span size="sm" c="dimmed">
                  <Ago at={problem.at} />
                </Text>
              )}
            </List.Item>
          ))}
        </List>
      </Alert>
    );
  }
  if (known.some((query) => query.data === undefined)) {
    return (
      <Alert color="gray" variant="outline" title="Looking" role="status">
        The page asks how the server is.
      </Alert>
    );
  }
  const servers = members.data?.length ? `${members.data.length} servers` : "the server";
  return (
    <Alert color="teal" variant="outline" title="All well" icon={<Icon name="check" tone="good" />} role="status">
      Database, upstreams, passes and {servers}: no problem within the last hour.
    </Alert>
  );
}

function Fleet() {
  const counts = useQuery(countsQuery);
  const holds = useQuery(holdsQuery(1));
  const sleeptime = useQuery(sleeptimeQuery);
  return (
    <section aria-label="Agents now">
      <QueryView query={counts}>
        {(counts) =>
          counts.total === 0 ? (
            <Paper withBorder>
              <Empty command="circadia agents add writer">
                There is no agent yet. Create one, or let the configuration name your agents.
              </Empty>
            </Paper>
          ) : (
            <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
              <Stat label="Asleep" icon="asleep" tone="asleep" href="/agents?state=asleep">
                {counts.asleep}
              </Stat>
              <Stat label="Awake" icon="awake" tone="awake" href="/agents?state=awake">
                {counts.awake}
              </Stat>
              <Stat label="Pulsing" icon="pulse" tone="pulse" href="/agents?state=pulsing">
                {counts.pulsing}
              </Stat>
              <Stat
                label="Held calls"
                icon="held"
                tone="held"
                href="/holds"
                note={holds.data?.holds[0] && <>longest <Lasting since={holds.data.holds[0].since} /></>}
              >
                {holds.data?.total ?? "–"}
              </Stat>
              <Stat label="Passes running" icon="dream" tone="dream" note={`${sleeptime.data?.passes.pending ?? 0} wait`}>
                {sleeptime.data ? (sleeptime.data.passes.running ?? 0) : "–"}
              </Stat>
            </SimpleGrid>
          )
        }
      </QueryView>
    </section>
  );
}

function Alerts() {
  const alerts = useQuery(alertsQuery);
  return (
    <section aria-label="Alerts">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Alerts
        </Title>
        <Anchor component={Link} href="/events?type=alert" size="sm">
          All alerts
        </Anchor>
      </Group>
      <QueryView query={alerts} height={60}>
        {(alerts) =>
          alerts.length === 0 ? (
            <Text size="sm">There has been no alert. Dead letters, open circuits and spent budgets would be here.</Text>
          ) : (
            <Stack gap={4}>
              {alerts.slice(0, 5).map((alert) => (
                <Group key={alert.number} gap="xs" wrap="nowrap" align="flex-start">
                  <Icon name="warning" tone="quiet" />
                  <Text size="sm" className="foreign-text" style={{ flex: 1, minWidth: 0 }}>
                    {describeAlert(alert)}
                  </Text>
                  <Text size="sm" c="dimmed" style={{ whiteSpace: "nowrap" }}>
                    <Ago at={alert.at} />
                  </Text>
                </Group>
              ))}
            </Stack>
          )
        }
      </QueryView>
    </section>
  );
}
