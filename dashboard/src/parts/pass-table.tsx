import type { PassView } from "@circadia/client";
import { Anchor } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { describeCost, describeEffect } from "../server/describe-pass";
import { formatDuration, formatUsd } from "../server/format";
import { Name } from "./name";
import { PassStatus } from "./pass-status";
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

const BANK: Column<PassView> = {
  id: "bank",
  header: "Bank",
  width: "1fr",
  cell: (pass) => <BankPassesLink bank={pass.bank} />,
  sortValue: (pass) => pass.bank,
};
/** A narrow screen has room for the bank or the effect. */
const WITH_BANK = [COLUMNS[0]!, BANK, ...COLUMNS.slice(1).map((column) => (column.id === "effect" ? { ...column, isWideOnly: true } : column))];

interface PassTableProps {
  label: string;
  passes: readonly PassView[];
  /** Whether the passes are over several banks. */
  hasBanks?: boolean;
  /** Whether there are older ones. */
  isPart?: boolean;
  empty: ReactNode;
}

/** Passes with their effect and cost; each leads to its page. */
export function PassTable({ label, passes, hasBanks = false, isPart = false, empty }: PassTableProps) {
  return (
    <VirtualTable label={label} rows={passes} isPart={isPart} rowKey={(pass) => pass.id} columns={hasBanks ? WITH_BANK : COLUMNS} empty={empty} />
  );
}

export function BankPassesLink({ bank }: { bank: string }) {
  return (
    <Anchor component={Link} href={`/banks/${encodeURIComponent(bank)}?tab=passes`} className="name">
      <Name text={bank} />
    </Anchor>
  );
}

function Cost({ pass }: { pass: PassView }) {
  return <span title={describeCost(pass.spent)}>{formatUsd(pass.spent.usd)}</span>;
}
