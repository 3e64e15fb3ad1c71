import type { BalanceView } from "@circadia/client";
import { Table, Text } from "@mantine/core";

import { formatCount, formatNumberOf, formatUsd } from "../server/format";

/** What each operation of passes saves and costs. */
export function Balances({ balances }: { balances: readonly BalanceView[] }) {
  if (balances.length === 0) return <Text size="sm">No operation has saved or cost anything yet.</Text>;
  return (
    <Table.ScrollContainer minWidth={480}>
      <Table aria-label="What passes save and cost">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Operation</Table.Th>
            <Table.Th ta="end">Uses</Table.Th>
            <Table.Th ta="end">Saved</Table.Th>
            <Table.Th ta="end">Cost</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {balances.map((balance) => (
            <Table.Tr key={balance.operation}>
              <Table.Td>{balance.operation}</Table.Td>
              <Table.Td ta="end">{formatCount(balance.uses)}</Table.Td>
              <Table.Td ta="end">
                {formatUsd(balance.saved_usd)}, {formatNumberOf(balance.saved_tokens, "token")}
              </Table.Td>
              <Table.Td ta="end">
                {formatUsd(balance.spent_usd)}, {formatNumberOf(balance.spent_tokens, "token")}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
