import type { ChangeView, PassDetail } from "@circadia/client";
import { Anchor, Group, Paper, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "wouter";

import { ActButton } from "../parts/act-button";
import { Diff } from "../parts/diff";
import { ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { Ago } from "../parts/time";
import { circadia } from "../server/circadia";
import { formatCount, formatDuration, formatUsd } from "../server/format";
import { changesQuery, passQuery } from "../server/queries";

/** One pass: why it began, what it cost, and each change, to accept, refuse or undo. */
export default function PassPage() {
  const { pass: id = "" } = useParams<{ pass: string }>();
  const pass = useQuery(passQuery(id));
  return <QueryView query={pass}>{(pass) => <Details pass={pass} />}</QueryView>;
}

function Details({ pass }: { pass: PassDetail }) {
  const changes = useQuery(changesQuery(pass.id));
  const path = { pass: pass.id };
  const isOpen = pass.status === "pending" || pass.status === "running";
  return (
    <Stack>
      <PageTitle
        about={`${pass.status.replaceAll("_", " ")}${pass.detail ? `: ${pass.detail}` : ""}`}
        acts={
          isOpen ? (
            <ActButton
              act={() => circadia.cancelPass({ path })}
              success="The pass is cancelled."
              warning="Its published changes stay; the rest of its input waits for the next pass."
            >
              Cancel
            </ActButton>
          ) : (
            <ActButton
              act={() => circadia.undoPass({ path })}
              success="All changes of the pass are undone."
              warning="All its changes are taken back. Lines that others have changed since stay."
              barrier={changes.data?.length === 0 ? "The pass has changed nothing." : undefined}
            >
              Undo all
            </ActButton>
          )
        }
      >
        {`Pass over ${pass.bank}`}
      </PageTitle>
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        <Stat label="Trigger" note={pass.by && <>by <Name text={pass.by} /></>}>
          {pass.trigger}
        </Stat>
        <Stat label="Began" note={`ran ${formatDuration(pass.run_seconds)}`}>
          {pass.started_at ? <Ago at={pass.started_at} /> : "not yet"}
        </Stat>
        <Stat label="Tokens">{formatCount(pass.spent.tokens)}</Stat>
        <Stat label="Cost">{formatUsd(pass.spent.usd)}</Stat>
      </SimpleGrid>
      <Anchor component={Link} href={`/banks/${encodeURIComponent(pass.bank)}?tab=passes`} size="sm">
        All passes over this bank
      </Anchor>
      {pass.errors.map((error) => (
        <ForeignText key={error} text={`Error: ${error}`} />
      ))}
      <Title order={2} size="h5">
        Changes
      </Title>
      <QueryView query={changes}>
        {(changes) => (
          <Stack>
            {changes.some(({ state }) => state === "staged") && !pass.dry_run && <ReviewAll pass={pass.id} />}
            {changes.length === 0 && <Text size="sm">This pass changes nothing{isOpen ? " yet" : ""}.</Text>}
            {changes.map((change) => (
              <Change key={change.number} change={change} isDryRun={pass.dry_run} />
            ))}
          </Stack>
        )}
      </QueryView>
      {pass.ledger.length > 0 && <Ledger pass={pass} />}
    </Stack>
  );
}

function ReviewAll({ pass }: { pass: string }) {
  return (
    <Group gap="xs">
      <ActButton act={() => circadia.acceptPass({ path: { pass } })} success="All changes are published." warning="All changes that wait are published.">
        Accept all
      </ActButton>
      <ActButton act={() => circadia.refusePass({ path: { pass } })} success="All changes are refused." warning="All changes that wait are refused; they are never published.">
        Refuse all
      </ActButton>
    </Group>
  );
}

function Change({ change, isDryRun }: { change: ChangeView; isDryRun: boolean }) {
  const path = { pass: change.pass };
  const body = { numbers: [change.number] };
  const subject = `change ${change.number}`;
  return (
    <Paper withBorder p="sm">
      <Group justify="space-between">
        <Text size="sm" component="div">
          {change.number}. {change.operation}: {change.kind.replaceAll("_", " ")} <Name text={change.target} />, {change.state}
        </Text>
        {change.state === "staged" && !isDryRun && (
          <Group gap="xs">
            <ActButton subject={subject} act={() => circadia.acceptPass({ path, body })} success="The change is published.">
              Accept
            </ActButton>
            <ActButton subject={subject} act={() => circadia.refusePass({ path, body })} success="The change is refused." warning="It is never published.">
              Refuse
            </ActButton>
          </Group>
        )}
      </Group>
      {change.why && <ForeignText text={change.why} />}
      <Diff before={textOf(change.before)} after={textOf(change.after)} />
    </Paper>
  );
}

/** Return the text of one side of a change: of a note or a block, else its data. */
function textOf(side: ChangeView["after"]): string {
  if (side === null) return "";
  const text = side["text"] ?? side["value"];
  return typeof text === "string" ? text : JSON.stringify(side, null, 2);
}

function Ledger({ pass }: { pass: PassDetail }) {
  return (
    <Table aria-label="Cost by operation and model">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Operation</Table.Th>
          <Table.Th>Model</Table.Th>
          <Table.Th>Calls</Table.Th>
          <Table.Th>Tokens</Table.Th>
          <Table.Th>Cost</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {pass.ledger.map((line) => (
          <Table.Tr key={`${line.operation} ${line.model}`}>
            <Table.Td>{line.operation}</Table.Td>
            <Table.Td style={{ overflowWrap: "anywhere" }}>{line.model}</Table.Td>
            <Table.Td>{formatCount(line.calls)}</Table.Td>
            <Table.Td>{formatCount(line.tokens)}</Table.Td>
            <Table.Td>{formatUsd(line.usd)}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
