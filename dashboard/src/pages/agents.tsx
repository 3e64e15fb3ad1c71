import type { AgentStateView } from "@circadia/client";
import { Button, Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useDeferredValue, useMemo, useState } from "react";

import { ActButton } from "../parts/act-button";
import { AddAgent } from "../parts/add-agent";
import { AgentState, stateOf } from "../parts/agent-state";
import { Empty } from "../parts/empty";
import { AgentLink, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Lasting } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { useAgentRows } from "../server/agent-rows";
import { circadia } from "../server/circadia";
import { formatCount, formatNumberOf } from "../server/format";
import { useHoldsElsewhere } from "../server/holds";
import { splitReference } from "../server/reference";
import { useTypedPart, useViewPart } from "../server/view";

const FILTERS = ["all", "asleep", "awake", "pulsing", "held", "disabled"] as const;
type Filter = (typeof FILTERS)[number];

const COLUMNS: Column<AgentStateView>[] = [
  {
    id: "agent",
    header: "Agent",
    width: "3fr",
    cell: (agent) => <AgentLink reference={agent.reference} />,
    sortValue: (agent) => agent.reference,
  },
  {
    id: "state",
    header: "State",
    width: "11rem",
    narrowWidth: "6.5rem",
    cell: (agent) => <AgentState state={stateOf(agent)} isPulsing={agent.pulsing} />,
    sortValue: (agent) => `${stateOf(agent)} ${agent.pulsing}`,
  },
  {
    id: "since",
    header: "For",
    width: "7rem",
    cell: (agent) => <Lasting since={agent.since} />,
    sortValue: (agent) => -Date.parse(agent.since),
    isWideOnly: true,
  },
  {
    id: "actor",
    header: "Changed by",
    width: "2fr",
    cell: (agent) => <Name text={agent.actor} />,
    sortValue: (agent) => agent.actor,
    isWideOnly: true,
  },
  {
    id: "held",
    header: "Held",
    width: "4rem",
    narrowWidth: "3rem",
    cell: (agent) => agent.held || "",
    sortValue: (agent) => agent.held,
    isNumber: true,
  },
];

/** All agents of the open sessions. */
export default function AgentsPage() {
  const rows = useAgentRows();
  const [isAdding, setAdding] = useState(false);
  return (
    <Stack>
      <PageTitle
        about="Who is asleep, who is awake, and since when."
        acts={
          <Button size="xs" onClick={() => setAdding(true)}>
            Add an agent
          </Button>
        }
      >
        Agents
      </PageTitle>
      {isAdding && <AddAgent onClose={() => setAdding(false)} />}
      <QueryView query={rows} height={400}>
        {(rows) => <AgentTable listed={rows} />}
      </QueryView>
    </Stack>
  );
}

function AgentTable({ listed }: { listed: readonly AgentStateView[] }) {
  const [state, setState] = useViewPart("state", "all");
  const { counts, unlisted } = useHoldsElsewhere();
  const rows = useMemo(() => addHolds(listed, counts), [listed, counts]);
  const [text, setText] = useTypedPart("name");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const wanted = useDeferredValue(text.trim().toLowerCase());
  const filter = FILTERS.find((each) => each === state) ?? "all";
  const shown = useMemo(
    () => rows.filter((agent) => matches(agent, filter) && agent.reference.toLowerCase().includes(wanted)),
    [rows, filter, wanted],
  );
  const selected = useMemo(() => shown.filter((agent) => chosen.has(agent.reference)), [shown, chosen]);
  return (
    <>
      <Group align="flex-end">
        <TextInput
          label="Filter by name"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          style={{ flex: "1 1 12rem" }}
        />
        <SegmentedControl
          aria-label="State"
          value={filter}
          onChange={setState}
          data={FILTERS.map((value) => ({ value, label: value }))}
          style={{ flexWrap: "wrap" }}
        />
      </Group>
      <Group justify="space-between" mih={30}>
        <Text size="sm" role="status">
          {formatCount(shown.length)} of {formatNumberOf(rows.length, "agent")}
          {selected.length > 0 && `, ${formatCount(selected.length)} selected`}
          {unlisted > 0 && `; without ${formatNumberOf(unlisted, "call")} that other servers hold`}
        </Text>
        {selected.length > 0 && <BulkActs agents={selected} />}
      </Group>
      <VirtualTable
        label="Agents"
        rows={shown}
        rowKey={(agent) => agent.reference}
        columns={COLUMNS}
        initialSort={{ column: "agent", isDescending: false }}
        selection={{ chosen, onChange: setChosen }}
        empty={
          rows.length === 0 ? (
            <Empty command="circadia agents add writer">There is no agent yet. Create one here, or from a terminal:</Empty>
          ) : (
            <Empty>No agent matches. Clear the filter to see all.</Empty>
          )
        }
      />
    </>
  );
}

/** Return the agents with the held calls of other servers added. */
function addHolds(agents: readonly AgentStateView[], elsewhere: ReadonlyMap<string, number>): readonly AgentStateView[] {
  if (elsewhere.size === 0) return agents;
  return agents.map((agent) => ({ ...agent, held: agent.held + (elsewhere.get(agent.reference) ?? 0) }));
}

function matches(agent: AgentStateView, filter: Filter): boolean {
  if (filter === "all") return true;
  if (filter === "held") return agent.held > 0;
  if (filter === "pulsing") return agent.pulsing;
  if (filter === "disabled") return !agent.enabled;
  return agent.enabled && agent.sleeping === (filter === "asleep");
}

/** Put the selected agents to sleep, or wake them. */
function BulkActs({ agents }: { agents: readonly AgentStateView[] }) {
  const count = agents.length === 1 ? agents[0]!.reference : `${formatCount(agents.length)} agents`;
  return (
    <Group gap="xs">
      <ActButton
        subject={count}
        act={() => setSleeping(agents, true)}
        success={`${count} put to sleep.`}
        {...(agents.length > 1 && { warning: `The next calls of ${count} are held until you wake them.` })}
      >
        Sleep
      </ActButton>
      <ActButton
        subject={count}
        act={() => setSleeping(agents, false)}
        success={`${count} woken.`}
        {...(agents.length > 1 && { warning: `${count} wake, and their held calls go to the providers.` })}
      >
        Wake
      </ActButton>
    </Group>
  );
}

async function setSleeping(chosen: readonly AgentStateView[], sleeping: boolean): Promise<void> {
  const bySession = Map.groupBy(chosen, ({ reference }) => splitReference(reference).session);
  for (const [session, rows] of bySession) {
    await circadia.setManySleeping({ path: { session }, body: { sleeping, agents: rows.map(({ name }) => name) } });
  }
}
