import type { CallView } from "@circadia/client";
import { Button, Group, Select, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect } from "react";

import { CallDrawer } from "../parts/call-drawer";
import { CallOwner, CallState } from "../parts/call-facts";
import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { OlderRows } from "../parts/older-rows";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { TextFilter } from "../parts/text-filter";
import { Ago } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { CALL_FILTERS, type CallFilter } from "../server/call-filter";
import { formatCount, formatDuration, formatNumberOf, formatUsd } from "../server/format";
import { callsQuery } from "../server/queries";
import { useView, useViewPart } from "../server/view";

/** Pages without a call of the filter that are read by themselves: the server looks at 5,000 calls for each. */
const MOST_EMPTY_PAGES = 20;
const TEXTS = {
  agent: "Agent", session: "Session", model: "Model", upstream: "Provider", end_user: "End user", conversation: "Conversation",
} as const; // prettier-ignore

/** Model calls one by one, newest first, and those that wait at the gate. */
export default function CallsPage() {
  const [params, setParts] = useView();
  const filter = Object.fromEntries(CALL_FILTERS.map((name) => [name, params.get(name)]).filter(([, value]) => value)) as CallFilter;
  if (filter.status === "held") delete filter.order;
  const isFiltered = Object.keys(filter).length > 0;
  const call = params.get("call");
  return (
    <Stack>
      <PageTitle
        about="Each model call: tokens, money, time, why it stopped, and the memory that it has shown."
        acts={
          isFiltered && (
            <Button size="xs" variant="default" onClick={() => setParts(Object.fromEntries(CALL_FILTERS.map((name) => [name, ""])))}>
              Clear the filters
            </Button>
          )
        }
      >
        Calls
      </PageTitle>
      <Filters isHeld={filter.status === "held"} />
      <CallList filter={filter} isFiltered={isFiltered} onOpen={(id) => setParts({ call: id })} />
      {call !== null && <CallDrawer call={call} onClose={() => setParts({ call: "" })} />}
    </Stack>
  );
}

function Filters({ isHeld }: { isHeld: boolean }) {
  const [status, setStatus] = useViewPart("status");
  const [tier, setTier] = useViewPart("tier");
  const [order, setOrder] = useViewPart("order");
  return (
    <Group align="flex-end" gap="xs">
      <Select
        label="State"
        data={[
          { value: "", label: "all" }, { value: "done", label: "done" }, { value: "failed", label: "failed" },
          { value: "reserved", label: "under way" }, { value: "held", label: "held here" },
        ]} // prettier-ignore
        value={status}
        onChange={setStatus}
        allowDeselect={false}
        w="8rem"
      />
      {!isHeld && (
        <Select
          label="Tier"
          data={[{ value: "", label: "all" }, "hot", "ready", "sleep"]}
          value={tier}
          onChange={setTier}
          allowDeselect={false}
          w="7rem"
        />
      )}
      {(Object.keys(TEXTS) as (keyof typeof TEXTS)[])
        .filter((name) => !isHeld || name === "agent" || name === "session")
        .map((name) => (
          <TextFilter key={name} name={name} label={TEXTS[name]} />
        ))}
      {!isHeld && (
        <Select
          label="Order"
          data={[{ value: "", label: "newest" }, { value: "cost", label: "dearest" }]}
          value={order}
          onChange={setOrder}
          allowDeselect={false}
          w="7.5rem"
        />
      )}
      {!isHeld && <TextFilter name="since" label="Since" />}
      {!isHeld && <TextFilter name="until" label="Until" />}
    </Group>
  );
}

function CallList({ filter, isFiltered, onOpen }: { filter: CallFilter; isFiltered: boolean; onOpen: (call: string) => void }) {
  const calls = useInfiniteQuery(callsQuery(filter));
  const { data, hasNextPage, isFetchingNextPage, fetchNextPage } = calls;
  const looksOn = data !== undefined && data.rows.length === 0 && data.pages < MOST_EMPTY_PAGES && hasNextPage && !isFetchingNextPage;
  useEffect(() => {
    if (looksOn) void fetchNextPage();
  }, [looksOn, fetchNextPage]);
  return (
    <QueryView query={calls}>
      {({ rows }) => (
        <>
          <VirtualTable label="Calls" rows={rows} rowKey={(call) => call.id} columns={columnsFor(onOpen)} empty={<NoCall isFiltered={isFiltered} isLooking={looksOn || isFetchingNextPage} />} />
          <OlderRows query={calls} count={formatNumberOf(rows.length, "call")} {...(filter.order === "cost" && { more: "Look at 5,000 older ones" })} />
        </>
      )}
    </QueryView>
  );
}

function NoCall({ isFiltered, isLooking }: { isFiltered: boolean; isLooking: boolean }) {
  if (isLooking) return <Text size="sm" p="md">No such call among the newest; looking on …</Text>;
  if (isFiltered) return <Empty>No call meets these filters. Clear one to see more.</Empty>;
  return (
    <Empty command={`export OPENAI_BASE_URL=${location.origin}/llm/openai/v1`}>
      No model call yet. Agents call through the gateway when their base URL leads there:
    </Empty>
  );
}

function columnsFor(onOpen: (call: string) => void): Column<CallView>[] {
  const count = (value: number | null) => (value === null ? "–" : formatCount(value));
  const seconds = (value: number | null) => (value === null ? "–" : formatDuration(value));
  return [
    { id: "at", header: "When", width: "4.6rem", narrowWidth: "5rem", cell: (call) => <Ago at={call.at} />, csvValue: (call) => call.at },
    { id: "agent", header: "Agent", width: "2fr", cell: (call) => <CallOwner call={call} />, csvValue: (call) => call.reference },
    { id: "model", header: "Model", width: "2fr", cell: (call) => <Name text={call.model} />, csvValue: (call) => call.model, isWideOnly: true },
    { id: "state", header: "State", width: "4.6rem", narrowWidth: "5.5rem", cell: (call) => <CallState call={call} />, csvValue: (call) => call.status },
    { id: "input", header: "Tokens in", width: "4.4rem", cell: (call) => count(call.input_tokens), csvValue: (call) => call.input_tokens ?? "", isNumber: true, isWideOnly: true },
    { id: "cached", header: "Cached", width: "3.6rem", cell: (call) => count(call.cached_tokens), csvValue: (call) => call.cached_tokens ?? "", isNumber: true, isWideOnly: true },
    { id: "output", header: "Out", width: "3.2rem", cell: (call) => count(call.output_tokens), csvValue: (call) => call.output_tokens ?? "", isNumber: true, isWideOnly: true },
    { id: "cost", header: "Money", width: "4rem", cell: (call) => (call.cost_usd === null ? "–" : formatUsd(call.cost_usd)), csvValue: (call) => call.cost_usd ?? "", isNumber: true, isWideOnly: true },
    { id: "held", header: "Held", width: "4.6rem", cell: (call) => seconds(call.held_seconds), csvValue: (call) => call.held_seconds, isNumber: true, isWideOnly: true },
    { id: "total", header: "Took", width: "5.6rem", cell: (call) => seconds(call.total_seconds), csvValue: (call) => call.total_seconds ?? "", isNumber: true, isWideOnly: true },
    { id: "stop", header: "Stop", width: "3.6rem", cell: (call) => <Name text={call.stop_reason ?? ""} />, csvValue: (call) => call.stop_reason ?? "", isWideOnly: true },
    {
      id: "show",
      header: "Details",
      width: "3.4rem",
      cell: (call) => (
        <Button size="compact-xs" variant="default" onClick={() => onOpen(call.id)} aria-label={`Show the call ${call.id}`}>
          Show
        </Button>
      ),
    },
  ];
}
