import type { PassDetail } from "@circadia/client";
import { Table, Title } from "@mantine/core";

import { formatCount, formatDuration, formatUsd } from "../server/format";
import { ForeignText, Name } from "./name";

/** The model calls of a pass by operation and model, and what went wrong in them. */
export function PassLedger({ pass }: { pass: PassDetail }) {
  return (
    <>
      {pass.ledger.length > 0 && (
        <section aria-label="Model calls">
          <Title order={2} size="h5" mb="xs">
            Model calls
          </Title>
          <Table.ScrollContainer minWidth={560}>
            <Table aria-label="Model calls">
              <Table.Thead>
                <Table.Tr>
                  {["Operation", "Model", "Calls", "Failed", "Tokens", "Thinking", "Time", "Cost"].map((name) => (
                    <Table.Th key={name}>{name}</Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {pass.ledger.map((line) => (
                  <Table.Tr key={`${line.operation} ${line.model}`}>
                    <Table.Td>{line.operation}</Table.Td>
                    <Table.Td>
                      <Name text={line.model} />
                    </Table.Td>
                    <Table.Td>{formatCount(line.calls)}</Table.Td>
                    <Table.Td>{formatCount(line.failed)}</Table.Td>
                    <Table.Td>{formatCount(line.tokens)}</Table.Td>
                    <Table.Td>
                      {formatCount(line.thinking_tokens)}
                      {line.thinking_usd > 0 && ` (${formatUsd(line.thinking_usd)})`}
                    </Table.Td>
                    <Table.Td>{formatDuration(line.seconds)}</Table.Td>
                    <Table.Td>{formatUsd(line.usd)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </section>
      )}
      {pass.errors.length > 0 && (
        <section aria-label="Errors">
          <Title order={2} size="h5" mb="xs">
            Errors
          </Title>
          {pass.errors.map((error) => (
            <ForeignText key={error} text={error} />
          ))}
        </section>
      )}
    </>
  );
}
