import type { WakePairCounts } from "@circadia/client";
import { ScrollArea, Table, Text } from "@mantine/core";

import { findBusiest } from "../server/wake-graph";
import { Name } from "./name";

const MOST_SIDES = 30;

/** How often each sender has asked to wake each agent today; the darker, the more. */
export function WakeMatrix({ pairs }: { pairs: readonly WakePairCounts[] }) {
  const [senders, senderCount] = findBusiest(pairs.map(({ from, total }) => [from, total]), MOST_SIDES);
  const [targets, targetCount] = findBusiest(pairs.map(({ to, total }) => [to, total]), MOST_SIDES);
  const cells = new Map(pairs.map((pair) => [`${pair.from}\n${pair.to}`, pair]));
  const most = Math.max(...pairs.map(({ total }) => total));
  return (
    <ScrollArea type="auto" viewportProps={{ tabIndex: 0 }}>
      <Table withColumnBorders withTableBorder aria-label="Who wakes whom" w="auto">
        <Table.Caption>
          Rows ask, columns are asked; today in UTC.
          {senderCount > MOST_SIDES && ` The ${MOST_SIDES} busiest of ${senderCount} rows.`}
          {targetCount > MOST_SIDES && ` The ${MOST_SIDES} busiest of ${targetCount} columns.`}
          {" "}A cell has the requests, and how many of them were refused.
        </Table.Caption>
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">From</Table.Th>
            {targets.map((target) => (
              <Table.Th key={target} scope="col" maw={140}>
                <Name text={target} />
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {senders.map((sender) => (
            <Table.Tr key={sender}>
              <Table.Th scope="row" maw={160}>
                <Name text={sender} />
              </Table.Th>
              {targets.map((target) => (
                <Cell key={target} pair={cells.get(`${sender}\n${target}`)} most={most} />
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}

function Cell({ pair, most }: { pair: WakePairCounts | undefined; most: number }) {
  const share = pair ? Math.round(10 + (pair.total / most) * 30) : 0;
  const refused = pair?.decisions.refused ?? 0;
  return (
    <Table.Td ta="center" style={{ background: `color-mix(in srgb, var(--mantine-color-indigo-5) ${share}%, transparent)` }}>
      {pair && (
        <Text size="sm" style={{ whiteSpace: "nowrap" }}>
          {pair.total}
          {refused > 0 && `, ${refused} refused`}
        </Text>
      )}
    </Table.Td>
  );
}
