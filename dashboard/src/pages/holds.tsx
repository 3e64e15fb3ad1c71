import type { HeldCall } from "@circadia/client";
import { Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { ActButton } from "../parts/act-button";
import { Empty } from "../parts/empty";
import { AgentLink, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Lasting } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { circadia } from "../server/circadia";
import { formatCount, formatNumberOf } from "../server/format";
import { holdsQuery, isSharedQuery } from "../server/queries";

const COLUMNS: Column<HeldCall>[] = [
  { id: "agent", header: "Agent", width: "2fr", cell: (hold) => <AgentLink reference={hold.reference} />, sortValue: (hold) => hold.reference },
  { id: "since", header: "Held for", width: "7rem", cell: (hold) => <Lasting since={hold.since} />, sortValue: (hold) => Date.parse(hold.since) },
  { id: "what", header: "What", width: "3fr", cell: (hold) => <Name text={hold.what} mono />, sortValue: (hold) => hold.what, isWideOnly: true },
  { id: "door", header: "Door", width: "5rem", cell: (hold) => <Text size="sm">{hold.door}</Text>, isWideOnly: true },
  {
    id: "phase",
    header: "Client",
    width: "9rem",
    cell: (hold) => <Text size="sm">{hold.phase === "opened" ? "gets keep-alives" : "hears nothing yet"}</Text>,
    isWideOnly: true,
  },
  {
    id: "acts",
    header: "Acts",
    width: "7rem",
    cell: (hold) => (
      <ActButton
        size="compact-xs"
        subject={hold.reference}
        act={() => circadia.setSleeping({ path: { session: hold.session, agent: hold.agent }, body: { sleeping: false } })}
        success={`${hold.reference} woken; its held calls go on in their order.`}
      >
        Wake agent
      </ActButton>
    ),
  },
];

/** The calls that wait at the gate, the longest first. */
export default function HoldsPage() {
  const holds = useQuery(holdsQuery());
  const isShared = useQuery(isSharedQuery).data;
  return (
    <Stack>
      <PageTitle about="Calls of sleeping agents that wait at the gate. They go on, once and in their order, when the agent wakes.">
        Holds
      </PageTitle>
      <QueryView query={holds}>
        {({ holds, total }) => (
          <>
            <Text size="sm" role="status">
              {formatNumberOf(total, "held call")}
              {isShared && " at this server; the other servers list their own"}
              {total > holds.length && `, of which the ${formatCount(holds.length)} longest are shown`}
            </Text>
            <VirtualTable
              label="Held calls"
              rows={holds}
              rowKey={(hold) => hold.id}
              columns={COLUMNS}
              initialSort={{ column: "since", isDescending: false }}
              empty={<Empty command="circadia sleep writer">No call is held. The next call of a sleeping agent appears here.</Empty>}
            />
          </>
        )}
      </QueryView>
    </Stack>
  );
}
