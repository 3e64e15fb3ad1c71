import type { ThreadView } from "@circadia/client";
import { Anchor, Group, Select, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "wouter";

import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { sessionsQuery, threadsQuery } from "../server/queries";

const COLUMNS: Column<ThreadView>[] = [
  {
    id: "name",
    header: "Thread",
    width: "3fr",
    cell: (thread) => (
      <Anchor component={Link} href={`/threads/${encodeURIComponent(thread.session)}/${thread.id}`} className="name">
        <Name text={thread.name || thread.id} />
      </Anchor>
    ),
    sortValue: (thread) => thread.name,
  },
  { id: "status", header: "Status", width: "5rem", cell: (thread) => <Text size="sm">{thread.status}</Text>, sortValue: (thread) => thread.status },
  { id: "participants", header: "Participants", width: "3fr", cell: (thread) => <Name text={thread.participants.join(", ")} />, isWideOnly: true },
  { id: "created", header: "Opened", width: "6rem", cell: (thread) => <Ago at={thread.created_at} />, sortValue: (thread) => thread.created_at },
];

/** The threads of one session. */
export default function ThreadsPage() {
  const [params, setParams] = useSearchParams();
  const session = params.get("session") ?? "default";
  const sessions = useQuery(sessionsQuery);
  const threads = useQuery(threadsQuery(session));
  return (
    <Stack>
      <PageTitle about="Where the agents of a session talk, and people with them.">Threads</PageTitle>
      <Group>
        <Select
          label="Session"
          data={(sessions.data ?? []).map(({ name }) => name)}
          value={session}
          onChange={(value) => setParams(value === null || value === "default" ? {} : { session: value })}
          searchable
          allowDeselect={false}
        />
      </Group>
      <QueryView query={threads}>
        {(threads) => (
          <VirtualTable
            label="Threads"
            rows={threads}
            rowKey={(thread) => thread.id}
            columns={COLUMNS}
            initialSort={{ column: "created", isDescending: true }}
            empty={
              <Empty command={`curl -H "Authorization: Bearer TOKEN" ${location.origin}/api/v1/sessions/${session}/threads -d '{"name": "notes", "participants": ["writer"]}'`}>
                This session has no thread. Agents open them with their tools, and programs over REST:
              </Empty>
            }
          />
        )}
      </QueryView>
    </Stack>
  );
}
