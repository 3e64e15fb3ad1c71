import type { CallDetail, CallMemoryRow } from "@circadia/client";
import { Anchor, Drawer, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { callsAddress } from "../server/call-filter";
import { formatCount, formatDuration, formatUsd } from "../server/format";
import { callQuery } from "../server/queries";
import { CallOwner, CallState } from "./call-facts";
import { Facts } from "./facts";
import { ForeignText, Name } from "./name";
import { QueryView } from "./query-view";
import { DateTime } from "./time";

/** One model call: its figures, the memory that it has shown, and its text where that is kept. */
export function CallDrawer({ call, onClose }: { call: string; onClose: () => void }) {
  const details = useQuery(callQuery(call));
  return (
    <Drawer opened onClose={onClose} title="The call" position="right" size="lg">
      <QueryView query={details}>{(call) => <Call call={call} />}</QueryView>
    </Drawer>
  );
}

function Call({ call }: { call: CallDetail }) {
  const seconds = (value: number | null) => (value === null ? "not known" : formatDuration(value));
  return (
    <Stack>
      <Facts
        label="About the call"
        facts={{
          Agent: <CallOwner call={call} />,
          When: <DateTime at={call.at} />,
          State: <CallState call={call} />,
          Tier: call.tier,
          Provider: <Name text={`${call.upstream}, ${call.endpoint}`} />,
          Model: <Name text={call.model || "not named"} />,
          ...(call.http_status !== null && { Status: call.http_status }),
          "Stopped by": <Name text={call.stop_reason ?? "not known"} />,
          Tokens: describeTokens(call),
          Money: call.cost_usd === null ? "no known price" : formatUsd(call.cost_usd),
          Held: formatDuration(call.held_seconds),
          "First byte": seconds(call.first_token_seconds),
          Took: seconds(call.total_seconds),
          Retries: call.retries,
          "Ready answer": call.lookup === null ? "not looked up" : <Name text={`${call.lookup} ${call.answer ?? ""}`} />,
          Conversation: call.conversation === null ? "none" : <Behind filter={{ conversation: call.conversation }} text={call.conversation} />,
          "End user": call.end_user === null ? "none" : <Behind filter={{ end_user: call.end_user }} text={call.end_user} />,
          Id: <Name text={call.id} mono />,
        }}
      />
      {call.status !== "held" && call.tier !== "sleep" && <Memory rows={call.memory} />}
      <Texts call={call} />
    </Stack>
  );
}

function Behind({ filter, text }: { filter: Parameters<typeof callsAddress>[0]; text: string }) {
  return (
    <Anchor component={Link} href={callsAddress(filter)} size="sm" underline="always">
      <Name text={text} />
    </Anchor>
  );
}

function describeTokens({ input_tokens: read, cached_tokens: cached, output_tokens: written, reasoning_tokens: thought }: CallDetail): string {
  if (read === null && written === null) return "not known";
  const parts = [`${formatCount(read ?? 0)} in`];
  if (cached) parts.push(`of which ${formatCount(cached)} cached`);
  parts.push(`${formatCount(written ?? 0)} out`);
  if (thought) parts.push(`of which ${formatCount(thought)} thinking`);
  return parts.join(", ");
}

function Memory({ rows }: { rows: readonly CallMemoryRow[] }) {
  return (
    <section aria-label="Memory">
      <Title order={3} size="h6">
        Memory that it has shown
      </Title>
      {rows.length === 0 && <Text size="sm">None was added for its newest turn.</Text>}
      {rows.map((row, index) => (
        <Text size="sm" component="div" key={index}>
          {row.kind} <MemoryLink row={row} />
          {row.version !== null && (row.kind === "block" ? `, version ${row.version}` : `, passage ${row.version}`)}
        </Text>
      ))}
    </section>
  );
}

function MemoryLink({ row: { bank, kind, id } }: { row: CallMemoryRow }) {
  if (id === null || bank === "") return <>which was forgotten</>;
  const address = { block: `tab=blocks&block=${encodeURIComponent(id)}`, note: `note=${id}`, episode: `tab=episodes&episode=${id}` }[kind];
  return (
    <Anchor component={Link} href={`/banks/${encodeURIComponent(bank)}?${address}`} size="sm" underline="always">
      <Name text={id} mono={kind !== "block"} />
    </Anchor>
  );
}

function Texts({ call }: { call: CallDetail }) {
  if (call.status === "held") return <Text size="sm">It waits for its agent to wake; nothing was sent yet.</Text>;
  if (call.request === null && call.response === null) {
    return (
      <Text size="sm">
        {call.texts_are_kept ? "Its text is not kept, or not any more." : "This server keeps no texts of calls; the setting calls.keep_texts turns that on."}
      </Text>
    );
  }
  return [["Request", call.request] as const, ["Answer", call.response] as const].map(
    ([name, text]) =>
      text && (
        <section key={name} aria-label={name}>
          <Title order={3} size="h6">
            {name}
          </Title>
          <ForeignText text={text} />
        </section>
      ),
  );
}
