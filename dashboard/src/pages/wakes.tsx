import type { WakeView } from "@circadia/client";
import { Button, Drawer, Group, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import { ActButton } from "../parts/act-button";
import { Empty } from "../parts/empty";
import { Facts } from "../parts/facts";
import { GuardrailTrace } from "../parts/guardrail-trace";
import { Icon } from "../parts/icon";
import { AgentLink, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago, DateTime } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { WakeCircles } from "../parts/wake-circles";
import { WakeGraph } from "../parts/wake-graph";
import { WakeMatrix } from "../parts/wake-matrix";
import { circadia } from "../server/circadia";
import { matrixQuery, wakeQuery, wakesQuery } from "../server/queries";

const IS_ADMITTED: Partial<Record<WakeView["decision"], boolean>> = { admitted: true, coalesced: true };

/** Requests to wake agents: what was decided, and which guardrail decided it. */
export default function WakesPage() {
  const [wake, setWake] = useState<WakeView>();
  return (
    <Stack>
      <PageTitle about="Requests to wake an agent, with the decision and the guardrail behind it.">Wakes</PageTitle>
      <WakeCircles />
      <Tabs defaultValue="list" keepMounted={false}>
        <Tabs.List aria-label="Wakes">
          <Tabs.Tab value="list">Newest</Tabs.Tab>
          <Tabs.Tab value="matrix">Who wakes whom</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="list" pt="md">
          <WakeList onChoose={setWake} />
        </Tabs.Panel>
        <Tabs.Panel value="matrix" pt="md">
          <WhoWakesWhom />
        </Tabs.Panel>
      </Tabs>
      <Drawer opened={wake !== undefined} onClose={() => setWake(undefined)} title="Why this decision" position="right" size="lg">
        {wake && <WakeDetails wake={wake} />}
      </Drawer>
    </Stack>
  );
}

/** The requests of today as a graph, and as a table, which a screen reader can read. */
function WhoWakesWhom() {
  const pairs = useQuery(matrixQuery());
  return (
    <QueryView query={pairs}>
      {(pairs) =>
        pairs.length === 0 ? (
          <Empty>Nobody has asked for a wake today.</Empty>
        ) : (
          <Stack>
            <WakeGraph pairs={pairs} />
            <WakeMatrix pairs={pairs} />
          </Stack>
        )
      }
    </QueryView>
  );
}

function WakeList({ onChoose }: { onChoose: (wake: WakeView) => void }) {
  const wakes = useQuery(wakesQuery());
  const columns: Column<WakeView>[] = [
    { id: "at", header: "When", width: "6rem", narrowWidth: "4.5rem", cell: (wake) => <Ago at={wake.at} />, sortValue: (wake) => wake.at },
    { id: "agent", header: "Agent", width: "2fr", cell: (wake) => <AgentLink reference={wake.agent} />, sortValue: (wake) => wake.agent },
    { id: "from", header: "From", width: "2fr", cell: (wake) => <Name text={wake.from} />, sortValue: (wake) => wake.from, isWideOnly: true },
    {
      id: "decision",
      header: "Decision",
      width: "8rem",
      narrowWidth: "6.5rem",
      cell: (wake) => <Decision wake={wake} />,
      sortValue: (wake) => wake.decision,
    },
    { id: "rule", header: "Guardrail", width: "2fr", cell: (wake) => <Name text={wake.rule?.replaceAll("_", " ") ?? ""} />, isWideOnly: true },
    {
      id: "why",
      header: "Explain",
      width: "4.5rem",
      narrowWidth: "3rem",
      cell: (wake) => (
        <Button size="compact-xs" variant="default" onClick={() => onChoose(wake)} aria-label={`Why this decision on ${wake.agent}`}>
          Why
        </Button>
      ),
    },
  ];
  return (
    <QueryView query={wakes}>
      {(wakes) => (
        <VirtualTable
          label="Wakes"
          rows={wakes}
          rowKey={(wake) => wake.id}
          columns={columns}
          empty={
            <Empty command={'circadia send writer "please start" --wake user_request'}>
              Nobody has asked for a wake yet. Mentions, messages, schedules and people do:
            </Empty>
          }
        />
      )}
    </QueryView>
  );
}

function Decision({ wake }: { wake: WakeView }) {
  const isAdmitted = IS_ADMITTED[wake.decision] ?? false;
  return (
    <Group gap={4} wrap="nowrap">
      <Icon name={isAdmitted ? "check" : "held"} tone={isAdmitted ? "good" : wake.decision === "deferred" ? "held" : "bad"} size={16} />
      <Text size="sm">{wake.decision}</Text>
    </Group>
  );
}

function WakeDetails({ wake: listed }: { wake: WakeView }) {
  const details = useQuery(wakeQuery(listed.id));
  const wake = details.data ?? listed; // it may have been decided again
  const [, navigate] = useLocation();
  return (
    <Stack>
      <Facts
        label="About the wake"
        facts={{
          Agent: <AgentLink reference={wake.agent} />,
          From: <Name text={wake.from} />,
          Source: wake.source,
          Reason: wake.reason.replaceAll("_", " ") || "–",
          Requested: <DateTime at={wake.at} />,
          Decision: wake.decision,
          Guardrail: wake.rule?.replaceAll("_", " ") ?? "none",
          Detail: wake.detail || "–",
          "Counts as": wake.charge,
        }}
      />
      <Group>
        <Button size="xs" variant="default" onClick={() => navigate(`/chains/${wake.root}`)}>
          Show the chain
        </Button>
        {wake.decision === "deferred" && (
          <ActButton
            act={() => circadia.cancelWake({ path: { wake: wake.id } })}
            success="The wake is cancelled; its message stays in the inbox."
            warning={`${wake.agent} will not be woken by this request. Its message stays in the inbox.`}
          >
            Cancel the wake
          </ActButton>
        )}
      </Group>
      <QueryView query={details}>{({ trace }) => <GuardrailTrace trace={trace ?? []} />}</QueryView>
    </Stack>
  );
}
