import type { MemberView } from "@circadia/client";
import { Alert, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { Icon } from "../parts/icon";
import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago, Lasting, useServerNow } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { formatDuration } from "../server/format";
import { clusterQuery, readinessQuery, sleeptimeQuery } from "../server/queries";

const COLUMNS: Column<MemberView>[] = [
  { id: "id", header: "Member", width: "2fr", cell: (member) => <Name text={member.id} mono />, sortValue: (member) => member.id },
  { id: "role", header: "Role", width: "6rem", cell: (member) => <Text size="sm">{member.role}</Text>, sortValue: (member) => member.role },
  { id: "host", header: "Host", width: "2fr", cell: (member) => <Name text={member.host} />, sortValue: (member) => member.host, isWideOnly: true },
  { id: "version", header: "Version", width: "5rem", cell: (member) => <Text size="sm">{member.version}</Text>, isWideOnly: true },
  { id: "up", header: "Up for", width: "7rem", cell: (member) => <Lasting since={member.started_at} />, sortValue: (member) => member.started_at, isWideOnly: true },
  { id: "lease", header: "Lease", width: "6rem", cell: (member) => <Lease member={member} />, sortValue: (member) => member.lease_until },
  { id: "holds", header: "Holds", width: "4rem", cell: (member) => member.holds, sortValue: (member) => member.holds, isNumber: true },
  { id: "running", header: "Running", width: "5rem", cell: (member) => member.running, sortValue: (member) => member.running, isNumber: true },
  { id: "lead", header: "Leads", width: "4rem", cell: (member) => (member.leads ? "leads" : ""), isWideOnly: true },
];

/** The processes that share the database. */
export default function ClusterPage() {
  const members = useQuery(clusterQuery);
  const readiness = useQuery(readinessQuery);
  const sleeptime = useQuery(sleeptimeQuery);
  return (
    <Stack>
      <PageTitle about="The server processes that share one PostgreSQL database, with their leases.">Cluster</PageTitle>
      {readiness.data !== undefined && (
        <Alert
          color={readiness.data ? "red" : "teal"}
          variant="outline"
          role="status"
          icon={<Icon name={readiness.data ? "warning" : "check"} tone={readiness.data ? "bad" : "good"} />}
          title={readiness.data ? "This server is not ready" : "This server is ready"}
        >
          {readiness.data || "Its database answers."}
        </Alert>
      )}
      {sleeptime.data && sleeptime.data.lag_seconds > 0 && (
        <Text size="sm">Passes lag {formatDuration(sleeptime.data.lag_seconds)} behind the oldest turn that waits.</Text>
      )}
      <QueryView query={members}>
        {(members) => (
          <VirtualTable
            label="Members"
            rows={members}
            rowKey={(member) => member.id}
            columns={COLUMNS}
            empty={
              <Text size="sm" p="md">
                This server runs alone on SQLite. Several servers share a PostgreSQL: set <code>server.database_url</code>, and see{" "}
                <code>docs/operations/cluster.md</code>.
              </Text>
            }
          />
        )}
      </QueryView>
    </Stack>
  );
}

function Lease({ member }: { member: MemberView }) {
  const now = useServerNow();
  return Date.parse(member.lease_until) < now ? <Text size="sm">expired</Text> : <Ago at={member.lease_until} />;
}
