import type { PassView } from "@circadia/client";
import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";

import { formatCount, formatUsd } from "../server/format";
import { Empty } from "./empty";
import { Name } from "./name";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

const COLUMNS: Column<PassView>[] = [
  {
    id: "created",
    header: "When",
    width: "6rem",
    cell: (pass) => (
      <Anchor component={Link} href={`/passes/${pass.id}`} size="sm">
        <Ago at={pass.created_at} />
      </Anchor>
    ),
    sortValue: (pass) => pass.created_at,
  },
  { id: "bank", header: "Bank", width: "2fr", cell: (pass) => <Name text={pass.bank} />, sortValue: (pass) => pass.bank },
  { id: "status", header: "Status", width: "6rem", cell: (pass) => <Text size="sm">{pass.status.replaceAll("_", " ")}</Text>, sortValue: (pass) => pass.status },
  { id: "trigger", header: "Trigger", width: "6rem", cell: (pass) => <Text size="sm">{pass.trigger}</Text>, sortValue: (pass) => pass.trigger, isWideOnly: true },
  { id: "effect", header: "Effect", width: "3fr", cell: (pass) => <Name text={describeCounts(pass)} />, isWideOnly: true },
  { id: "tokens", header: "Tokens", width: "5rem", cell: (pass) => formatCount(pass.spent.tokens), sortValue: (pass) => pass.spent.tokens, isNumber: true, isWideOnly: true },
  { id: "usd", header: "Cost", width: "5rem", cell: (pass) => formatUsd(pass.spent.usd), sortValue: (pass) => pass.spent.usd, isNumber: true },
];

function describeCounts(pass: PassView): string {
  const counts = Object.entries(pass.counts).filter(([, count]) => count > 0);
  return counts.map(([name, count]) => `${name.replaceAll("_", " ")} ${count}`).join(", ") || pass.detail;
}

export function PassTable({ label, passes }: { label: string; passes: readonly PassView[] }) {
  return (
    <VirtualTable
      label={label}
      rows={passes}
      rowKey={(pass) => pass.id}
      columns={COLUMNS}
      initialSort={{ column: "created", isDescending: true }}
      empty={<Empty command="circadia passes run BANK">No pass yet. They begin by themselves while agents sleep, or on request:</Empty>}
    />
  );
}
