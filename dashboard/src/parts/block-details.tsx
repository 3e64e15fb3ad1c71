import type { BlockView } from "@circadia/client";
import { Button, Group, Paper, Select, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { versionsQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { BlockEditor } from "./block-editor";
import { ForeignText, Name } from "./name";
import { QueryView } from "./query-view";
import { TextDiff } from "./text-diff";
import { DateTime } from "./time";

/** One block: its text, and what each version changed. */
export function BlockDetails({ bank, label }: { bank: string; label: string }) {
  const versions = useQuery(versionsQuery(bank, label));
  return (
    <Paper withBorder p="md" role="region" aria-label={`Block ${label}`}>
      <QueryView query={versions}>{(versions) => <Versions versions={versions} />}</QueryView>
    </Paper>
  );
}

function Versions({ versions }: { versions: readonly BlockView[] }) {
  const [chosen, setChosen] = useState<number>();
  const latest = versions.at(-1);
  if (latest === undefined) return null;
  const version = versions.find((each) => each.version === chosen) ?? latest;
  const before = versions[versions.indexOf(version) - 1];
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={3} size="h5" className="name">
          <bdi>{latest.label}</bdi>
        </Title>
        <BlockActs block={latest} />
      </Group>
      {latest.description && <ForeignText text={latest.description} />}
      <Text size="sm" c="dimmed">
        {latest.deleted ? "Deleted; undo brings it back." : `${latest.value.length} of ${latest.limit} characters.`}{" "}
        {latest.pinned ? "In each prompt." : "In prompts whose question it fits."} {latest.read_only && "Only people may write it."}
      </Text>
      <Group align="flex-end">
        <Select
          label="Version"
          data={versions.toReversed().map((each) => ({ value: String(each.version), label: `${each.version} by ${each.by}` }))}
          value={String(version.version)}
          onChange={(value) => setChosen(value === null ? undefined : Number(value))}
          allowDeselect={false}
        />
        {version !== latest && (
          <ActButton act={() => undo(latest, version.version)} success={`Version ${version.version} is restored as a new version.`}>
            Restore this version
          </ActButton>
        )}
      </Group>
      <Text size="sm">
        <DateTime at={version.at} /> by <Name text={version.by} />
        {version.deleted && ", deleted"}
        {version.parent !== null && version.parent !== before?.version && `, based on version ${version.parent}`}
      </Text>
      {version.why && <ForeignText text={version.why} />}
      <TextDiff label={`What version ${version.version} changed`} before={textOf(before)} after={textOf(version)} />
    </Stack>
  );
}

function textOf(version: BlockView | undefined): string {
  return version === undefined || version.deleted ? "" : version.value;
}

function BlockActs({ block }: { block: BlockView }) {
  const [isEditing, setEditing] = useState(false);
  const path = { bank: block.bank, label: block.label };
  return (
    <Group gap="xs">
      <Button size="xs" variant="default" onClick={() => setEditing(true)}>
        Edit
      </Button>
      {isEditing && <BlockEditor bank={block.bank} block={block} onClose={() => setEditing(false)} />}
      <ActButton
        act={() => undo(block)}
        success="The version before is restored as a new version."
        barrier={block.parent === null ? "There is no version before." : undefined}
      >
        Undo
      </ActButton>
      <ActButton
        color="red"
        act={() => circadia.deleteBlock({ path, query: { expected_version: block.version } })}
        success={`${block.label} is deleted.`}
        warning="The prompts lose this block. The deletion is a version too: undo brings the block back."
        barrier={block.deleted ? "It is deleted." : undefined}
      >
        Delete
      </ActButton>
    </Group>
  );
}

function undo(latest: BlockView, to?: number): Promise<unknown> {
  const path = { bank: latest.bank, label: latest.label };
  return circadia.undoBlock({ path, body: { expected_version: latest.version, ...(to !== undefined && { to }) } });
}
