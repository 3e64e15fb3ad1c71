import { ScrollArea, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { matrixQuery } from "../server/queries";
import { Empty } from "./empty";
import { Name } from "./name";
import { QueryView } from "./query-view";

const MOST_SIDES = 30;

/** How often each sender has asked to wake each agent today; the darker, the more. */
export function WakeMatrix() {
  const pairs = useQuery(matrixQuery());
  return (
    <QueryView query={pairs}>
      {(pairs) => {
        if (pairs.length === 0) return <Empty>Nobody has asked for a wake today.</Empty>;
        const [senders, senderCount] = busiest(pairs.map(({ from, total }) => [from, total]));
        const [targets, targetCount] = busiest(pairs.map(({ to, total }) => [to, total]));
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
                    {targets.map((target) => {
                      const pair = cells.get(`${sender}\n${target}`);
                      const share = pair ? Math.round(10 + (pair.total / most) * 30) : 0;
                      const refused = pair?.decisions.refused ?? 0;
                      return (
                        <Table.Td
                          key={target}
                          ta="center"
                          style={{ background: `color-mix(in srgb, var(--mantine-color-indigo-5) ${share}%, transparent)` }}
                        >
                          {pair && (
                            <Text size="sm">
                              {pair.total}
                              {refused > 0 && `, ${refused} refused`}
                            </Text>
                          )}
                        </Table.Td>
                      );
                    })}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </ScrollArea>
        );
      }}
    </QueryView>
  );
}

/** Return the names with the highest sums, and how many names there are. */
function busiest(counts: readonly (readonly [string, number])[]): [string[], number] {
  const totals = new Map<string, number>();
  for (const [name, count] of counts) totals.set(name, (totals.get(name) ?? 0) + count);
  const names = [...totals].sort(([, one], [, other]) => other - one).map(([name]) => name);
  return [names.slice(0, MOST_SIDES), names.length];
}
