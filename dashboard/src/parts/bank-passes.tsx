import type { PassView, SleeptimeStatusView } from "@circadia/client";
import { Anchor, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { describeCost, describeEffect } from "../server/describe-pass";
import { formatDuration, formatNumberOf, formatUsd } from "../server/format";
import { bankSleeptimeQuery, passesQuery } from "../server/queries";
import { Balances } from "./balances";
import { Empty } from "./empty";
import { Name } from "./name";
import { PassActs } from "./pass-acts";
import { PassStatus } from "./pass-status";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

const COLUMNS: Column<PassView>[] = [
  {
    id: "at",
    header: "Asked for",
    width: "6rem",
    cell: (pass) => (
      <Anchor component={Link} href={`/passes/${pass.id}`} size="sm">
        <Ago at={pass.created_at} />
      </Anchor>
    ),
    sortValue: (pass) => pass.created_at,
  },
  { id: "status", header: "Status", width: "7rem", cell: (pass) => <PassStatus status={pass.status} />, sortValue: (pass) => pass.status },
  { id: "trigger", header: "Trigger", width: "6rem", cell: (pass) => pass.trigger, sortValue: (pass) => pass.trigger, isWideOnly: true },
  { id: "effect", header: "Effect", width: "3fr", cell: (pass) => <Name text={describeEffect(pass)} /> },
  { id: "cost", header: "Cost", width: "6rem", cell: (pass) => <Cost pass={pass} />, sortValue: (pass) => pass.spent.usd, isNumber: true, isWideOnly: true },
  {
    id: "ran",
    header: "Ran for",
    width: "6rem",
    cell: (pass) => formatDuration(pass.run_seconds),
    sortValue: (pass) => pass.run_seconds,
    isNumber: true,
    isWideOnly: true,
  },
];

/** The passes over one bank, and whether they pay. */
export function BankPasses({ bank }: { bank: string }) {
  const passes = useQuery(passesQuery(bank));
  const status = useQuery(bankSleeptimeQuery(bank));
  return (
    <Stack>
      <QueryView query={status}>{(status) => <BankStatus status={status} />}</QueryView>
      <QueryView query={passes}>
        {(passes) => (
          <VirtualTable
            label={`Passes over ${bank}`}
            rows={passes}
            rowKey={(pass) => pass.id}
            columns={COLUMNS}
            empty={<Empty command={`circadia passes run ${bank} --wait`}>There was no pass over this bank yet. Triggers begin passes, or you do:</Empty>}
          />
        )}
      </QueryView>
    </Stack>
  );
}

function BankStatus({ status }: { status: SleeptimeStatusView }) {
  return (
    <>
      <Group justify="space-between">
        <Text size="sm" role="status">
          {formatNumberOf(status.backlog.episodes, "episode")} {status.backlog.episodes === 1 ? "waits" : "wait"}. {status.paused_by === null ? status.verdict.why || status.gate : <>Paused by <Name text={status.paused_by} /></>}
        </Text>
        <PassActs status={status} />
      </Group>
      {status.leftovers.length > 0 && (
        <Text size="sm">
          {status.leftovers.length} ranges of episodes failed and are retried, or wait for you to resume: {status.leftovers[0]!.cause}
        </Text>
      )}
      <Balances balances={status.balances} />
    </>
  );
}

function Cost({ pass }: { pass: PassView }) {
  return <span title={describeCost(pass.spent)}>{formatUsd(pass.spent.usd)}</span>;
}
