import { Table } from "@mantine/core";
import type { ReactNode } from "react";

/** Names with their values, one pair a line. */
export function Facts({ label, facts }: { label: string; facts: Record<string, ReactNode> }) {
  return (
    <Table variant="vertical" layout="fixed" withTableBorder aria-label={label}>
      <Table.Tbody>
        {Object.entries(facts).map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th w={120}>{name}</Table.Th>
            <Table.Td style={{ overflowWrap: "anywhere" }}>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
