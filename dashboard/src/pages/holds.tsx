import type { HeldCall, MemberHoldsView } from "@circadia/client";
import { Anchor, Group, Stack, Text, Title } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";

import { ActButton } from "../parts/act-button";
import { CallDrawer } from "../parts/call-drawer";
import { Empty } from "../parts/empty";
import { AgentLink, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Lasting } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { actOnAll, describeResult } from "../server/bulk";
import { circadia } from "../server/circadia";
import { formatCount, formatNumberOf } from "../server/format";
import { useHolds } from "../server/holds";
import { useViewPart } from "../server/view";

const COLUMNS: Column<HeldCall>[] = [
  { id: "agent", header: "Agent", width: "2fr", cell: (hold) => <AgentLink reference={hold.reference} />, sortValue: (hold) => hold.reference },
  {
    id: "since",
    header: "Held for",
    width: "7rem",
    narrowWidth: "6rem",
    cell: (hold) => <Lasting since={hold.since} />,
    sortValue: (hold) => Date.parse(hold.since),
  },
  { id: "what", header: "What", width: "3fr", cell: (hold) => <CallLink hold={hold} />, sortValue: (hold) => hold.what, isWideOnly: true },
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
    width: "8rem",
    narrowWidth: "7rem",
    cell: (hold) => (
      <Group gap={4} wrap="nowrap">
        <WakeButton agent={hold} />
        <DropButton hold={hold} />
      </Group>
    ),
  },
];

const COLUMNS_ELSEWHERE: Column<MemberHoldsView>[] = [
  { id: "agent", header: "Agent", width: "2fr", cell: (row) => <AgentLink reference={row.reference} />, sortValue: (row) => row.reference },
  { id: "server", header: "Server", width: "3fr", cell: (row) => <Name text={row.address} mono />, sortValue: (row) => row.address },
  { id: "holds", header: "Calls", width: "4rem", cell: (row) => formatCount(row.holds), sortValue: (row) => -row.holds, isNumber: true },
  { id: "acts", header: "Acts", width: "8rem", narrowWidth: "4rem", cell: (row) => <WakeButton agent={row} /> },
];

/** The calls that wait at the gate, the longest first. */
export default function HoldsPage() {
  const holds = useHolds();
  const [call, setCall] = useViewPart("call");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  return (
    <Stack>
      <PageTitle about="Calls of sleeping agents that wait at the gate. They go on, once and in their order, when the agent wakes.">
        Holds
      </PageTitle>
      <QueryView query={holds}>
        {({ holds, total, elsewhere, total_elsewhere: totalElsewhere }) => (
          <>
            <Text size="sm" role="status">
              {formatNumberOf(total + totalElsewhere, "held call")}
              {totalElsewhere > 0 && `, ${formatCount(totalElsewhere)} of them at other servers`}
              {total > holds.length && `; the ${formatCount(holds.length)} longest are shown`}
            </Text>
            <BulkActs holds={holds.filter(({ id }) => chosen.has(id))} />
            <VirtualTable
              label="Held calls"
              rows={holds}
              rowKey={(hold) => hold.id}
              columns={COLUMNS}
              initialSort={{ column: "since", isDescending: false }}
              selection={{ chosen, onChange: setChosen, rowName: ({ reference }) => `the held call of ${reference}` }}
              empty={
                totalElsewhere > 0 ? (
                  <Empty>This server holds no call.</Empty>
                ) : (
                  <Empty command="circadia sleep writer">No call is held. The next call of a sleeping agent appears here.</Empty>
                )
              }
            />
            {totalElsewhere > 0 && <HoldsElsewhere rows={elsewhere} total={totalElsewhere} />}
          </>
        )}
      </QueryView>
      {call !== "" && <CallDrawer call={call} onClose={() => setCall(null)} />}
    </Stack>
  );
}

/** Wakes the agents of the selected calls, or drops the calls. */
function BulkActs({ holds }: { holds: readonly HeldCall[] }) {
  if (holds.length === 0) return null;
  const agents = [...new Map(holds.map((hold) => [hold.reference, hold])).values()];
  const calls = formatNumberOf(holds.length, "held call");
  return (
    <Group justify="flex-end" gap="xs">
      <ActButton
        subject={`the agents of ${calls}`}
        act={() => actOnAll(agents, ({ session, agent }) => circadia.setSleeping({ path: { session, agent }, body: { sleeping: false } }))}
        success={(result) => describeResult(result, "woken")}
        warning={`${formatNumberOf(agents.length, "agent")} wake, and all their held calls go to the providers.`}
      >
        Wake
      </ActButton>
      <ActButton
        subject={calls}
        act={() => actOnAll(holds, ({ id }) => circadia.dropHold({ path: { hold: id } }))}
        success={(result) => describeResult(result, "dropped")}
        warning={`Each caller gets the error "dropped". Nothing is sent, and the agents sleep on.`}
      >
        Drop
      </ActButton>
    </Group>
  );
}

function HoldsElsewhere({ rows, total }: { rows: readonly MemberHoldsView[]; total: number }) {
  const shown = rows.reduce((sum, { holds }) => sum + holds, 0);
  return (
    <section aria-label="At other servers">
      <Title order={2} size="h5">
        At other servers
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        A wake releases these calls too. To drop one, open the dashboard of its server.
        {total > shown && ` ${formatCount(total - shown)} more calls are not shown.`}
      </Text>
      <VirtualTable
        label="Calls held by other servers"
        rows={rows}
        rowKey={({ server, reference }) => `${server} ${reference}`}
        columns={COLUMNS_ELSEWHERE}
        empty={null}
      />
    </section>
  );
}

/** What a held call asks for; it leads to the call. */
function CallLink({ hold }: { hold: HeldCall }) {
  return (
    <Anchor component={Link} href={`/holds?call=${hold.id}`} className="name">
      <Name text={hold.what} mono />
    </Anchor>
  );
}

function WakeButton({ agent: { session, agent, reference } }: { agent: { session: string; agent: string; reference: string } }) {
  return (
    <ActButton
      size="compact-xs"
      subject={`agent ${reference}`}
      act={() => circadia.setSleeping({ path: { session, agent }, body: { sleeping: false } })}
      success={`${reference} woken; its held calls go on in their order.`}
    >
      Wake
    </ActButton>
  );
}

function DropButton({ hold }: { hold: HeldCall }) {
  return (
    <ActButton
      size="compact-xs"
      subject={`the call of ${hold.reference}`}
      act={() => circadia.dropHold({ path: { hold: hold.id } })}
      success={`The call is dropped; ${hold.reference} sleeps on.`}
      warning={`${describeDrop(hold)} Nothing is sent, and ${hold.reference} sleeps on.`}
    >
      Drop
    </ActButton>
  );
}

/** Return what the caller of a dropped call gets. */
function describeDrop({ door, phase, what }: HeldCall): string {
  if (door === "mcp") return `${what}: the caller gets a JSON-RPC error.`;
  if (phase === "opened") return `${what}: the open answer ends with the error "dropped".`;
  return `${what}: the caller gets status 410 with the error "dropped", which SDKs do not retry.`;
}
