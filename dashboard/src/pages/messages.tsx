import type { UnhandledMessage } from "@circadia/client";
import { Anchor, Button, Drawer, Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { Empty } from "../parts/empty";
import { Facts } from "../parts/facts";
import { Icon } from "../parts/icon";
import { HandledButton, RequeueAllButton, RequeueButton } from "../parts/message-acts";
import { MessageWakes } from "../parts/message-wakes";
import { AgentLink, ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago, DateTime } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { formatNumberOf } from "../server/format";
import { unhandledQuery } from "../server/queries";
import { splitReference } from "../server/reference";
import { useTypedPart, useViewPart } from "../server/view";

const FILTERS = ["all", "dead", "unread"] as const;
type Filter = (typeof FILTERS)[number];

/** Messages of all agents that nobody has handled: dead letters, which need a person, and unread ones. */
export default function MessagesPage() {
  const [params, setParams] = useSearchParams();
  const filter = FILTERS.find((each) => each === params.get("state")) ?? "all";
  const dead = useInfiniteQuery({ ...unhandledQuery("dead"), enabled: filter !== "unread" });
  const unread = useInfiniteQuery({ ...unhandledQuery("unread"), enabled: filter !== "dead" });
  return (
    <Stack>
      <PageTitle about="Messages that no agent has handled, dead letters first: their pulse was interrupted for the last time, so a person decides.">
        Messages
      </PageTitle>
      <SegmentedControl
        aria-label="State of the messages"
        value={filter}
        onChange={(value) => setParams(value === "all" ? {} : { state: value })}
        data={FILTERS.map((value) => ({ value, label: value === "dead" ? "dead letters" : value }))}
        style={{ alignSelf: "flex-start" }}
      />
      {filter === "unread" ? (
        <QueryView query={unread}>{(rows) => <MessageTable filter={filter} rows={rows} pages={[unread]} />}</QueryView>
      ) : (
        <QueryView query={dead}>
          {(letters) =>
            filter === "dead" ? (
              <MessageTable filter={filter} rows={letters} pages={[dead]} />
            ) : (
              <QueryView query={unread}>
                {(rows) => <MessageTable filter={filter} rows={joinRows(letters, rows)} pages={[dead, unread]} />}
              </QueryView>
            )
          }
        </QueryView>
      )}
    </Stack>
  );
}

interface MessageTableProps {
  filter: Filter;
  rows: readonly UnhandledMessage[];
  /** Where older rows come from. */
  pages: readonly { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }[];
}

function MessageTable({ filter, rows, pages }: MessageTableProps) {
  const [text, setText] = useTypedPart("text");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [openedKey, setOpenedKey] = useViewPart("message");
  const wanted = useDeferredValue(text.trim().toLowerCase());
  const shown = useMemo(() => rows.filter((message) => includes(message, wanted)), [rows, wanted]);
  const selected = shown.filter((message) => isDead(message) && chosen.has(keyOf(message)));
  const columns = columnsFor((message) => setOpenedKey(keyOf(message)));
  const opened = rows.find((row) => keyOf(row) === openedKey);
  const older = pages.filter(({ hasNextPage }) => hasNextPage);
  return (
    <>
      <TextInput
        label="Filter by agent, author or text"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        maw={480}
      />
      <Group justify="space-between" mih={30}>
        <Text size="sm" role="status">
          {describeRows(shown, filter)}
          {older.length > 0 && "; there are older ones"}
          {selected.length > 0 && `; ${selected.length} selected`}
        </Text>
        {selected.length > 0 && <RequeueAllButton messages={selected} />}
      </Group>
      <VirtualTable
        label="Messages"
        rows={shown}
        isPart={older.length > 0}
        rowKey={keyOf}
        columns={columns}
        selection={{ chosen, onChange: setChosen, isSelectable: isDead, rowName: ({ from, to }) => `the message from ${from} to ${to}` }}
        empty={<NoMessage filter={filter} isFiltered={rows.length > 0} />}
      />
      {older.length > 0 && <OlderButton pages={older} />}
      <Drawer opened={opened !== undefined} onClose={() => setOpenedKey(null)} title="The message" position="right" size="lg">
        {opened && <MessageDetails message={opened} onDone={() => setOpenedKey(null)} />}
      </Drawer>
    </>
  );
}

function OlderButton({ pages }: Pick<MessageTableProps, "pages">) {
  return (
    <Group>
      <Button
        size="xs"
        variant="default"
        onClick={() => pages.forEach(({ fetchNextPage }) => void fetchNextPage())}
        loading={pages.some(({ isFetchingNextPage }) => isFetchingNextPage)}
      >
        Show older ones
      </Button>
    </Group>
  );
}

function NoMessage({ filter, isFiltered }: { filter: Filter; isFiltered: boolean }) {
  if (isFiltered) return <Empty>No message matches. Clear the filter to see all.</Empty>;
  if (filter === "dead") return <Empty>No dead letter. A message whose pulse was interrupted for the last time would be here.</Empty>;
  return (
    <Empty command={'circadia send writer "the list is ready"'}>
      Every message is handled. Messages that wait in an inbox would be here:
    </Empty>
  );
}

/** Return the dead letters, then the unread messages; one that has moved since the older of the answers is in there once. */
function joinRows(letters: readonly UnhandledMessage[], unread: readonly UnhandledMessage[]): UnhandledMessage[] {
  const keys = new Set(unread.map(keyOf));
  return [...letters.filter((letter) => !keys.has(keyOf(letter))), ...unread];
}

/** A message of a thread is in several inboxes. */
function keyOf({ id, to }: UnhandledMessage): string {
  return `${id} ${to}`;
}

function isDead({ state }: UnhandledMessage): boolean {
  return state === "dead";
}

/** Direct messages have a thread of their own, which no page shows. */
function isDirect({ thread_name: thread }: UnhandledMessage): boolean {
  return thread === "direct";
}

function includes({ to, from, content }: UnhandledMessage, wanted: string): boolean {
  return [to, from, content].some((text) => text.toLowerCase().includes(wanted));
}

function describeRows(rows: readonly UnhandledMessage[], filter: Filter): string {
  const dead = rows.filter(isDead).length;
  const letters = formatNumberOf(dead, "dead letter");
  const unread = `${formatNumberOf(rows.length - dead, "unread message")}`;
  return filter === "dead" ? letters : filter === "unread" ? unread : `${letters}, ${unread}`;
}

function columnsFor(onOpen: (message: UnhandledMessage) => void): Column<UnhandledMessage>[] {
  return [
    { id: "state", header: "State", width: "5.5rem", narrowWidth: "5rem", cell: (message) => <State message={message} /> },
    { id: "at", header: "When", width: "6rem", cell: (message) => <Ago at={message.at} />, sortValue: (message) => message.at, isWideOnly: true },
    { id: "to", header: "Agent", width: "2fr", cell: (message) => <AgentLink reference={message.to} />, sortValue: (message) => message.to },
    { id: "from", header: "From", width: "2fr", cell: (message) => <Name text={message.from} />, sortValue: (message) => message.from, isWideOnly: true },
    { id: "content", header: "Message", width: "5fr", cell: (message) => <Name text={message.content} />, isWideOnly: true },
    {
      id: "acts",
      header: "Acts",
      width: "9rem",
      narrowWidth: "8rem",
      cell: (message) => (
        <Group gap={4} wrap="nowrap">
          <Button
            size="compact-xs"
            variant="default"
            onClick={() => onOpen(message)}
            aria-label={`Read the message from ${message.from} to ${message.to}`}
          >
            Read
          </Button>
          {isDead(message) && <RequeueButton message={message} size="compact-xs" />}
        </Group>
      ),
    },
  ];
}

function State({ message }: { message: UnhandledMessage }) {
  return (
    <Group gap={4} wrap="nowrap">
      <Icon name={isDead(message) ? "warning" : "inbox"} tone={isDead(message) ? "bad" : "quiet"} size={16} />
      <Text size="sm">{message.state}</Text>
    </Group>
  );
}

function MessageDetails({ message, onDone }: { message: UnhandledMessage; onDone: () => void }) {
  const { session } = splitReference(message.to);
  const [, navigate] = useLocation();
  const { root } = message;
  return (
    <Stack>
      <ForeignText text={message.content} />
      <Facts
        label="About the message"
        facts={{
          Agent: <AgentLink reference={message.to} />,
          From: <Name text={message.from} />,
          Sent: <DateTime at={message.at} />,
          State: <State message={message} />,
          ...(message.ended_at && { "Set aside": <DateTime at={message.ended_at} /> }),
          Priority: message.priority,
          Type: message.type,
          Thread: isDirect(message) ? (
            "none, a direct message"
          ) : (
            <Anchor component={Link} href={`/threads/${encodeURIComponent(session)}/${message.thread}`} className="name" size="sm">
              <Name text={message.thread_name || message.thread} />
            </Anchor>
          ),
        }}
      />
      <MessageWakes message={message.id} />
      <Group>
        {isDead(message) && <RequeueButton message={message} onDone={onDone} />}
        <HandledButton message={message} reference={message.to} onDone={onDone} />
        {root !== null && (
          <Button size="xs" variant="default" onClick={() => navigate(`/chains/${root}`)}>
            Show the chain
          </Button>
        )}
      </Group>
    </Stack>
  );
}
