import { Alert, Button, Group, Stack, Table, Text } from "@mantine/core";

import type { Difference } from "../server/draft";
import { type DraftState, isPreconditionFailed } from "../server/use-draft";
import { Icon } from "./icon";

interface VersionComparisonProps {
  draft: DraftState;
  labelOf: (name: string) => string;
  describe?: (value: unknown) => string;
}

/** What others have changed beside one's own draft, and what to do about it. */
export function VersionComparison({ draft, labelOf, describe = describeValue }: VersionComparisonProps) {
  const { differences, saving } = draft;
  return (
    <Alert
      color="orange"
      variant="outline"
      role="alert"
      title="Somebody else has changed this meanwhile"
      icon={<Icon name="warning" tone="held" />}
      styles={{ body: { minWidth: 0 }, label: { whiteSpace: "normal" } }}
    >
      <Stack gap="xs">
        <Text size="sm">
          {isPreconditionFailed(saving.error) && `${saving.error!.message}. `}
          Nothing is lost: your changes are kept here, and not saved.
        </Text>
        <Table.ScrollContainer minWidth={260}>
          <Table aria-label="Both versions" layout="fixed">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Setting</Table.Th>
                <Table.Th className="wide-only">When you began</Table.Th>
                <Table.Th>Now, on the server</Table.Th>
                <Table.Th>Yours</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {differences.map((difference) => (
                <ComparisonRow
                  key={difference.name}
                  label={labelOf(difference.name)}
                  difference={difference}
                  describe={describe}
                  onTakeTheirs={() => draft.takeTheirs(difference.name)}
                />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
        <Group gap="xs">
          <Button size="xs" onClick={draft.rebase}>
            Keep my changes
          </Button>
          <Button size="xs" variant="default" onClick={draft.discard}>
            Discard my changes
          </Button>
        </Group>
        <Text size="xs">“Keep my changes” adds yours to the version on the server; you can look at both and then save.</Text>
      </Stack>
    </Alert>
  );
}

interface ComparisonRowProps {
  label: string;
  difference: Difference;
  describe: (value: unknown) => string;
  onTakeTheirs: () => void;
}

function ComparisonRow({ label, difference: { before, theirs, mine, isConflict }, describe, onTakeTheirs }: ComparisonRowProps) {
  return (
    <Table.Tr>
      <Table.Th scope="row">{label}</Table.Th>
      <Table.Td className="wide-only">{describe(before)}</Table.Td>
      <Table.Td>{describe(theirs)}</Table.Td>
      <Table.Td>
        {describe(mine) === describe(before) ? "not changed" : describe(mine)}
        {isConflict && (
          <Button size="compact-xs" variant="default" ml="xs" onClick={onTakeTheirs} aria-label={`Use theirs for ${label}`}>
            Use theirs
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

/** Return a value in words. */
function describeValue(value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "on" : "off";
  return Array.isArray(value) ? value.join(", ") || "none" : String(value);
}
