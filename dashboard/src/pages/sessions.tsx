import type { SessionView } from "@circadia/client";
import { Anchor, Drawer, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { ActButton } from "../parts/act-button";
import { Empty } from "../parts/empty";
import { Facts } from "../parts/facts";
import { AgentLink, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago, DateTime } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { callsAddress } from "../server/call-filter";
import { circadia } from "../server/circadia";
import { sessionQuery, sessionsQuery } from "../server/queries";
import { useViewPart } from "../server/view";

const COLUMNS: Column<SessionView>[] = [
  {
    id: "name",
    header: "Session",
    width: "3fr",
    cell: (session) => (
      <Anchor component={Link} href={`/sessions?session=${encodeURIComponent(session.name)}`} className="name">
        <Name text={session.name} />
      </Anchor>
    ),
    sortValue: (session) => session.name,
  },
  { id: "state", header: "State", width: "6rem", cell: (session) => (session.stalled ? "stalled" : session.status), sortValue: (session) => session.status },
  { id: "touched", header: "Last act", width: "7rem", cell: (session) => <Ago at={session.touched_at} />, sortValue: (session) => session.touched_at },
  { id: "created", header: "Opened", width: "7rem", cell: (session) => <Ago at={session.created_at} />, sortValue: (session) => session.created_at, isWideOnly: true },
];

/** The open sessions: groups of agents with their threads. */
export default function SessionsPage() {
  const sessions = useQuery(sessionsQuery);
  const [shown, setShown] = useViewPart("session");
  return (
    <Stack>
      <PageTitle about="Groups of agents with their threads. A stalled one has agents that all sleep, and nobody acts.">Sessions</PageTitle>
      <QueryView query={sessions}>
        {(rows) => (
          <VirtualTable
            label="Sessions"
            rows={rows}
            rowKey={(session) => session.id}
            columns={COLUMNS}
            initialSort={{ column: "name", isDescending: false }}
            empty={<Empty command="circadia sessions add release-7 --agent writer">No session is open.</Empty>}
          />
        )}
      </QueryView>
      {shown !== "" && <SessionDrawer name={shown} onClose={() => setShown(null)} />}
    </Stack>
  );
}

function SessionDrawer({ name, onClose }: { name: string; onClose: () => void }) {
  const session = useQuery(sessionQuery(name));
  return (
    <Drawer opened onClose={onClose} title="The session" position="right" size="lg">
      <QueryView query={session}>
        {(session) => (
          <Stack>
            <Facts
              label="About the session"
              facts={{
                Name: <Name text={session.name} />,
                State: session.stalled ? "open, stalled" : session.status,
                Opened: <DateTime at={session.created_at} />,
                "Last act": <DateTime at={session.touched_at} />,
                Id: <Name text={session.id} mono />,
              }}
            />
            <Group>
              <Anchor component={Link} size="sm" underline="always" href={`/threads?session=${encodeURIComponent(session.name)}`}>
                Its threads
              </Anchor>
              <Anchor component={Link} size="sm" underline="always" href={callsAddress({ session: session.name })}>
                Its calls
              </Anchor>
            </Group>
            <section aria-label="Agents">
              {session.agents.length === 0 && <Text size="sm">It has no agent.</Text>}
              {session.agents.map((agent) => (
                <Group key={agent.id} gap="xs" wrap="nowrap">
                  <AgentLink reference={agent.reference} />
                  <Text size="sm">{agent.sleeping ? "asleep" : "awake"}</Text>
                </Group>
              ))}
              {session.next !== null && (
                <Anchor component={Link} size="sm" underline="always" href={`/agents?name=${encodeURIComponent(`${session.name}:`)}`}>
                  All its agents
                </Anchor>
              )}
            </section>
            {session.name !== "default" && session.status === "open" && (
              <Group>
                <ActButton
                  color="red"
                  subject={`session ${session.name}`}
                  act={() => circadia.closeSession({ path: { session: session.name } }).then(onClose)}
                  success="The session is closed."
                  warning="The tokens of its agents become invalid, their held calls end, and its threads close. This cannot be undone."
                >
                  Close
                </ActButton>
              </Group>
            )}
          </Stack>
        )}
      </QueryView>
    </Drawer>
  );
}
