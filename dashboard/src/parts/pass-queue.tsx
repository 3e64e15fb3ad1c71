import type { SleeptimeStatusView } from "@circadia/client";
import { Text } from "@mantine/core";

import { formatCount, formatDuration } from "../server/format";
import { Empty } from "./empty";
import { Name } from "./name";
import { PassActs } from "./pass-acts";
import { PassProgress } from "./pass-progress";
import { BankPassesLink } from "./pass-table";
import { type Column, VirtualTable } from "./virtual-table";

const COLUMNS: Column<SleeptimeStatusView>[] = [
  { id: "bank", header: "Bank", width: "2fr", cell: (bank) => <BankPassesLink bank={bank.bank} />, sortValue: (bank) => bank.bank },
  { id: "now", header: "Now", width: "4fr", cell: (bank) => <Now status={bank} /> },
  {
    id: "turns",
    header: "Turns",
    width: "5rem",
    cell: (bank) => formatCount(bank.backlog.turns),
    sortValue: (bank) => bank.backlog.turns,
    isNumber: true,
    isWideOnly: true,
  },
  {
    id: "lag",
    header: "Waits for",
    width: "7rem",
    cell: (bank) => formatDuration(bank.lag_seconds),
    sortValue: (bank) => bank.lag_seconds,
    isNumber: true,
    isWideOnly: true,
  },
  { id: "acts", header: "Acts", width: "11rem", cell: (bank) => <PassActs status={bank} />, isWideOnly: true },
];

/** The banks that wait for a pass, or have one. */
export function PassQueue({ banks, more }: { banks: readonly SleeptimeStatusView[]; more: number }) {
  return (
    <>
      <VirtualTable
        label="Banks with work"
        rows={banks}
        rowKey={(bank) => bank.bank}
        columns={COLUMNS}
        empty={<Empty command="circadia passes run team">No bank waits for a pass. New turns do, or you ask for one:</Empty>}
      />
      {more > 0 && <Text size="sm">{formatCount(more)} more banks wait.</Text>}
    </>
  );
}

function Now({ status }: { status: SleeptimeStatusView }) {
  if (status.running !== null) return <PassProgress pass={status.running} />;
  return <Name text={status.verdict.due ? `begins soon: ${status.verdict.why}` : status.verdict.why || status.gate} />;
}
