import type { DreamView } from "@circadia/client";
import { Anchor, Code, Group, Paper, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { ActButton } from "../parts/act-button";
import { DreamStatus } from "../parts/dream-status";
import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { OlderRows } from "../parts/older-rows";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { circadia } from "../server/circadia";
import { formatNumberOf, formatUsd } from "../server/format";
import { dreamsQuery, folderQuery, foldersQuery } from "../server/queries";

const COLUMNS: Column<DreamView>[] = [
  {
    id: "at",
    header: "Asked for",
    width: "6rem",
    cell: (dream) => (
      <Anchor component={Link} href={`/dreams/${dream.id}`} size="sm">
        <Ago at={dream.created_at} />
      </Anchor>
    ),
    sortValue: (dream) => dream.created_at,
  },
  { id: "status", header: "Status", width: "9rem", cell: (dream) => <DreamStatus dream={dream} />, sortValue: (dream) => dream.status },
  { id: "over", header: "Over", width: "1fr", cell: (dream) => <Name text={`${dream.inputs[0]!.type} ${dream.inputs[0]!.name}`} /> },
  { id: "did", header: "What it did", width: "3fr", cell: (dream) => <Name text={dream.error?.message ?? dream.summary} />, isWideOnly: true },
  {
    id: "cost",
    header: "Cost",
    width: "6rem",
    cell: (dream) => formatUsd(dream.usage.usd),
    sortValue: (dream) => dream.usage.usd,
    isNumber: true,
    isWideOnly: true,
  },
];

/** Dreams over memory folders and banks: what the next one waits for, and what there was. */
export default function DreamsPage() {
  const folders = useQuery(foldersQuery);
  const dreams = useInfiniteQuery(dreamsQuery);
  return (
    <Stack>
      <PageTitle about="A dream reads a coding agent's sessions, and puts its memory folder in order. A person accepts the changes.">Dreams</PageTitle>
      <section aria-label="Folders">
        <Title order={2} size="h5" mb="xs">
          Memory folders
        </Title>
        <QueryView query={folders}>{(names) => <Folders names={names} />}</QueryView>
      </section>
      <section aria-label="History">
        <Title order={2} size="h5" mb="xs">
          History
        </Title>
        <QueryView query={dreams}>
          {(rows) => (
            <>
              <VirtualTable
                label="History of dreams"
                rows={rows}
              isPart={dreams.hasNextPage}
                rowKey={(dream) => dream.id}
                columns={COLUMNS}
                empty={<Empty>There was no dream yet. One begins when it is due, or when somebody asks for it.</Empty>}
              />
              <OlderRows query={dreams} count={formatNumberOf(rows.length, "dream")} />
            </>
          )}
        </QueryView>
      </section>
    </Stack>
  );
}

function Folders({ names }: { names: readonly string[] }) {
  if (names.length === 0) {
    return (
      <Stack gap="xs" p="md">
        <Text size="sm">The configuration names no memory folder. For example:</Text>
        <Code block tabIndex={0}>
          {"dreams:\n  app:\n    folder: ~/src/app        # a project that you work on with Claude Code"}
        </Code>
      </Stack>
    );
  }
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      {names.map((name) => (
        <Folder key={name} name={name} />
      ))}
    </SimpleGrid>
  );
}

function Folder({ name }: { name: string }) {
  const folder = useQuery(folderQuery(name));
  return (
    <Paper withBorder p="sm" component="section" aria-label={`Folder ${name}`} style={{ minWidth: 0 }}>
      <Group justify="space-between" wrap="nowrap">
        <Text fw={600} className="name" component="div">
          <Name text={name} />
        </Text>
        <ActButton
          size="compact-xs"
          subject={`over ${name}`}
          act={() => circadia.runDream({ body: { inputs: [{ type: "folder", name }] } })}
          success={`A dream over ${name} begins.`}
          barrier={folder.data?.waiting ? "The changes of a dream wait for a person." : undefined}
        >
          Dream
        </ActButton>
      </Group>
      <QueryView query={folder} height={40}>
        {(folder) => (
          <>
            <Text size="sm">
              {formatNumberOf(folder.entries, "entry", "entries")} in {formatNumberOf(folder.files, "file")}; the next dream reads{" "}
              {formatNumberOf(folder.sessions, "session")}.
            </Text>
            <Text size="sm" className="foreign-text">
              {describeNext(folder)}
            </Text>
          </>
        )}
      </QueryView>
    </Paper>
  );
}

function describeNext({ waiting, next_dream }: { waiting: string | null; next_dream: string }): string {
  if (waiting !== null) return "Changes wait until a person has accepted or refused them.";
  return next_dream === "" ? "A dream is due." : `Not yet due: ${next_dream}.`;
}
