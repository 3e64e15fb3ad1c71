import type { CircadiaEvent } from "@circadia/client";
import { Text } from "@mantine/core";

import { describeEvent, nameEvent } from "../server/describe-event";
import { referenceOf } from "../server/reference";
import { Empty } from "./empty";
import { AgentLink, Name } from "./name";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

const TIME: Column<CircadiaEvent> = { id: "at", header: "When", width: "6rem", cell: (event) => <Ago at={event.at} /> };
const WHAT: Column<CircadiaEvent> = { id: "type", header: "What", width: "10rem", cell: (event) => <Text size="sm">{nameEvent(event)}</Text> };
const AGENT: Column<CircadiaEvent> = {
  id: "agent",
  header: "Agent",
  width: "1fr",
  cell: ({ session, agent }) => agent !== null && <AgentLink reference={referenceOf(session, agent)} />,
};
const DETAILS: Column<CircadiaEvent> = { id: "details", header: "Details", width: "3fr", cell: (event) => <Name text={describeEvent(event)} />, isWideOnly: true };

interface EventTableProps {
  label: string;
  /** Newest first. */
  events: readonly CircadiaEvent[];
  withAgent?: boolean;
}

export function EventTable({ label, events, withAgent = true }: EventTableProps) {
  return (
    <VirtualTable
      label={label}
      rows={events}
      rowKey={(event) => String(event.number)}
      columns={withAgent ? [TIME, WHAT, AGENT, DETAILS] : [TIME, WHAT, DETAILS]}
      empty={<Empty command="circadia events --follow">No event matches yet. New ones appear here by themselves.</Empty>}
    />
  );
}
