import { Group, Paper, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";

import { Empty } from "./empty";

interface WaitingListProps<Row> {
  label: string;
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  title: (row: Row) => ReactNode;
  /** What a person needs to know for a decision. */
  about: (row: Row) => ReactNode;
  acts: (row: Row) => ReactNode;
  /** Said where nothing waits. */
  empty: string;
}

/** What waits for a person's decision, each with what there is to know and the acts. */
export function WaitingList<Row>({ label, rows, rowKey, title, about, acts, empty }: WaitingListProps<Row>) {
  if (rows.length === 0) return <Empty>{empty}</Empty>;
  return (
    <Stack component="ul" gap="xs" m={0} p={0} style={{ listStyle: "none" }} aria-label={label}>
      {rows.map((row) => (
        <Paper key={rowKey(row)} component="li" withBorder p="sm">
          <Group justify="space-between" gap="xs" align="flex-start">
            <Text size="sm" fw={600} component="div" style={{ minWidth: 0, flex: "1 1 12rem" }}>
              {title(row)}
            </Text>
            {acts(row)}
          </Group>
          <Text size="sm" component="div">
            {about(row)}
          </Text>
        </Paper>
      ))}
    </Stack>
  );
}
