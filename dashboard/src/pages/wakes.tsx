import type { WakeDetail, WakeView } from "@circadia/client";
import { Button, Drawer, Group, Select, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import { ActButton } from "../parts/act-button";
import { Empty } from "../parts/empty";
import { Facts } from "../parts/facts";
import { GuardrailTrace } from "../parts/guardrail-trace";
import { Icon } from "../parts/icon";
import { AgentLink, Name } from "../parts/name";
import { OlderRows } from "../parts/older-rows";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { TextFilter } from "../parts/text-filter";
import { Ago, DateTime } from "../parts/time";
import { ViewTabs } from "../parts/view-tabs";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { WakeCircles } from "../parts/wake-circles";
import { WakeGraph } from "../parts/wake-graph";
import { WakeMatrix } from "../parts/wake-matrix";
import { actOnAll, describeResult } from "../server/bulk";
import { circadia } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { allWakesQuery, matrixQuery, wakeQuery } from "../server/queries";
import { useView, useViewPart } from "../server/view";

const IS_ADMITTED: Partial<Record<WakeView["decision"], boolean>> = { admitted: true, coalesced: true };

/** Requests to wake agents: what was decided, and which guardrail decided it. */
export default function WakesPage() {
  const [wake, setWake] = useViewPart("wake");
  return (
    <Stack>
      <PageTitle about="Requests to wake an agent, with the decision and the guardrail behind it.">Wakes</PageTitle>
      <WakeCircles />
      <ViewTabs
        label="Wakes"
        tabs={[
          { value: "list", label: "Newest", content: <WakeList onChoose={setWake} /> },
          { value: "matrix", label: "Who wakes whom", content: <WhoWakesWhom /> },
        ]}
      />
      {wake !== "" && <WakeDrawer wake={wake} onClose={() => setWake(null)} />}
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

const DECISIONS: WakeView["decision"][] = ["admitted", "coalesced", "deferred", "refused", "expired", "cancelled"];
const TEXTS = { agent: "Agent", sender: "From", since: "Since", until: "Until" };

function WakeFilters() {
  const [decision, setDecision] = useViewPart("decision");
  return (
    <Group align="flex-end" gap="xs" mb="xs">
      <Select
        label="Decision"
        data={[{ value: "", label: "all" }, ...DECISIONS]}
        value={decision}
        onChange={setDecision}
        allowDeselect={false}
        w="8rem"
      />
      {Object.entries(TEXTS).map(([name, label]) => (
        <TextFilter key={name} name={name} label={label} />
      ))}
    </Group>
  );
}

function WakeList({ onChoose }: { onChoose: (wake: string) => void }) {
  const [params] = useView();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const filter = Object.fromEntries([...Object.keys(TEXTS), "decision"].map((name) => [name, params.get(name)]).filter(([, value]) => value));
  const wakes = useInfiniteQuery(allWakesQuery(filter));
  const columns: Column<WakeView>[] = [
    { id: "at", header: "When", width: "6rem", narrowWidth: "4.5rem", cell: (wake) => <Ago at={wake.at} />, sortValue: (wake) => wake.at },
    { id: "agent", header: "Agent", width: "2fr", cell: (wake) => <AgentLink reference={wake.agent} />, sortValue: (wake) => wake.agent },
    { id: "from", header: "From", width: "2fr", cell: (wake) => <Name text={wake.from} />, sortValue: (wake) => wake.from, isWideOnly: true },
    {
      id: "decision",
      header: "Decision",
      width: "8rem",
      narrowWidth: "5.5rem",
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
        <Button size="compact-xs" variant="default" onClick={() => onChoose(wake.id)} aria-label={`Why this decision on ${wake.agent}`}>
          Why
        </Button>
      ),
    },
  ];
  return (
    <>
      <WakeFilters />
      <QueryView query={wakes}>
        {(rows) => {
          const selected = rows.filter((wake) => isDeferred(wake) && chosen.has(wake.id));
          return (
            <>
              {selected.length > 0 && <CancelAll wakes={selected} />}
              <VirtualTable
                label="Wakes"
                rows={rows}
                isPart={wakes.hasNextPage}
                rowKey={(wake) => wake.id}
                columns={columns}
                {...(rows.some(isDeferred) && {
                  selection: { chosen, onChange: setChosen, isSelectable: isDeferred, rowName: ({ agent }: WakeView) => `the wake of ${agent}` },
                })}
                empty={
                  <Empty command={'circadia send writer "please start" --wake user_request'}>
                    No such request. Mentions, messages, schedules and people ask for wakes:
                  </Empty>
                }
              />
              <OlderRows query={wakes} count={formatNumberOf(rows.length, "wake")} />
            </>
          );
        }}
      </QueryView>
    </>
  );
}

function isDeferred({ decision }: WakeView): boolean {
  return decision === "deferred";
}

/** Cancels the deferred wakes that are selected. */
function CancelAll({ wakes }: { wakes: readonly WakeView[] }) {
  const count = formatNumberOf(wakes.length, "wake");
  return (
    <Group justify="flex-end" mb="xs">
      <ActButton
        subject={`${count} that are selected`}
        act={() => actOnAll(wakes, ({ id }) => circadia.cancelWake({ path: { wake: id } }))}
        success={(result) => describeResult(result, "cancelled")}
        warning={`${count} will wake nobody. Their messages stay in the inboxes.`}
      >
        Cancel
      </ActButton>
    </Group>
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

function WakeDrawer({ wake, onClose }: { wake: string; onClose: () => void }) {
  const details = useQuery(wakeQuery(wake));
  return (
    <Drawer opened onClose={onClose} title="Why this decision" position="right" size="lg">
      <QueryView query={details}>{(wake) => <WakeDetails wake={wake} />}</QueryView>
    </Drawer>
  );
}

function WakeDetails({ wake }: { wake: WakeDetail }) {
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
      <GuardrailTrace trace={wake.trace ?? []} />
    </Stack>
  );
}
