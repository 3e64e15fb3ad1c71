import type { GuardrailCheckView } from "@circadia/client";
import { Group, Table, Text } from "@mantine/core";

import { Icon } from "./icon";

/** The guardrails in order, up to the one that decided. */
export function GuardrailTrace({ trace }: { trace: readonly GuardrailCheckView[] }) {
  if (trace.length === 0) return <Text size="sm">No guardrail was asked.</Text>;
  return (
    <Table aria-label="Guardrails" withRowBorders={false} verticalSpacing={2}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Guardrail</Table.Th>
          <Table.Th>Result</Table.Th>
          <Table.Th>Value</Table.Th>
          <Table.Th>Limit</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {trace.map((check) => (
          <Table.Tr key={check.rule}>
            <Table.Td style={{ overflowWrap: "anywhere" }}>{check.rule.replaceAll("_", " ")}</Table.Td>
            <Table.Td>
              <Group gap={4} wrap="nowrap">
                <Icon name={check.passed ? "check" : "warning"} tone={check.passed ? "good" : "bad"} size={14} />
                {check.passed ? "passed" : "stopped"}
              </Group>
              {check.detail && <Text size="xs">{check.detail}</Text>}
            </Table.Td>
            <Table.Td>{check.value ?? "–"}</Table.Td>
            <Table.Td>{check.limit ?? "none"}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
