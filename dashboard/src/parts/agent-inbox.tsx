import type { InboxItem } from "@circadia/client";
import { Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { inboxQuery } from "../server/queries";
import { Empty } from "./empty";
import { HandledButton, RequeueButton } from "./message-acts";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { SendMessage } from "./send-message";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

const STATES = ["unread", "leased", "handled", "dead"] as const;
type State = (typeof STATES)[number];

/** The messages of one agent by state, and a form for a new one. */
export function AgentInbox({ reference }: { reference: string }) {
  const [state, setState] = useState<State>("unread");
  const inbox = useQuery(inboxQuery(reference, [state]));
  return (
    <Stack>
      <Group justify="space-between">
        <SegmentedControl
          aria-label="State of the messages"
          value={state}
          onChange={(value) => setState(value as State)}
          data={STATES.map((value) => ({ value, label: `${value} ${inbox.data?.counts[value] ?? ""}` }))}
        />
        <SendMessage to={reference} />
      </Group>
      <QueryView query={inbox}>
        {({ messages }) => (
          <VirtualTable
            label={`Messages of ${reference}`}
            rows={messages}
            rowKey={(message) => message.id}
            columns={columnsFor(reference)}
            empty={
              <Empty command={`circadia send ${reference} "the list is ready"`}>
                No {state} message. Agents and people put messages here:
              </Empty>
            }
          />
        )}
      </QueryView>
    </Stack>
  );
}

function columnsFor(reference: string): Column<InboxItem>[] {
  return [
    { id: "at", header: "When", width: "6rem", cell: (message) => <Ago at={message.at} />, sortValue: (message) => message.at },
    { id: "from", header: "From", width: "1fr", cell: (message) => <Name text={message.from} />, sortValue: (message) => message.from },
    { id: "content", header: "Message", width: "3fr", cell: (message) => <Name text={message.content} /> },
    { id: "priority", header: "Priority", width: "5rem", cell: (message) => <Text size="sm">{message.priority}</Text>, isWideOnly: true },
    {
      id: "acts",
      header: "Acts",
      width: "9rem",
      cell: (message) =>
        message.state === "dead" ? (
          <RequeueButton message={{ ...message, to: reference }} size="compact-xs" />
        ) : (
          message.state !== "handled" && <HandledButton message={message} reference={reference} size="compact-xs" />
        ),
    },
  ];
}
