import type { DreamView } from "@circadia/client";
import { Anchor, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "wouter";

import { ActButton } from "../parts/act-button";
import { DreamStatus } from "../parts/dream-status";
import { ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { DateTime } from "../parts/time";
import { UnifiedDiff } from "../parts/unified-diff";
import { circadia } from "../server/circadia";
import { formatCount, formatUsd } from "../server/format";
import { dreamDiffQuery, dreamQuery, folderQuery } from "../server/queries";

/** One dream: what it changed or proposes, and a person's verdict on it. */
export default function DreamPage() {
  const { dream = "" } = useParams<{ dream: string }>();
  const query = useQuery(dreamQuery(dream));
  return (
    <QueryView query={query}>
      {(dream) => (
        <Stack>
          <PageTitle acts={<Acts dream={dream} />}>{`Dream over ${dream.inputs[0]!.type} ${dream.inputs[0]!.name}`}</PageTitle>
          <Facts dream={dream} />
          {isOfFolder(dream) && dream.entry !== null && <Diff dream={dream} />}
        </Stack>
      )}
    </QueryView>
  );
}

function Facts({ dream }: { dream: DreamView }) {
  const output = dream.outputs[0];
  return (
    <>
      <Text size="sm" component="div">
        Asked for <DateTime at={dream.created_at} /> by <Name text={dream.by} />.
      </Text>
      {dream.instructions && <ForeignText text={dream.instructions} />}
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
        <Stat label="Status" note={dream.error?.message}>
          <DreamStatus status={dream.status} />
        </Stat>
        <Stat label="What it did">
          <Text size="sm" className="foreign-text">
            {dream.summary || "nothing yet"}
          </Text>
        </Stat>
        <Stat label="Cost" note={`${formatCount(dream.usage.calls)} calls, ${formatCount(dream.usage.tokens)} tokens`}>
          {formatUsd(dream.usage.usd)}
        </Stat>
        <Stat label="Result" note={isOfFolder(dream) ? dream.mode : "a new bank"}>
          <Text size="sm" className="foreign-text" component="div">
            {output === undefined ? "none" : isOfFolder(dream) ? output.name : <BankLink bank={output.name} />}
          </Text>
        </Stat>
      </SimpleGrid>
    </>
  );
}

function BankLink({ bank }: { bank: string }) {
  return (
    <Anchor component={Link} href={`/banks/${encodeURIComponent(bank)}`}>
      <Name text={bank} />
    </Anchor>
  );
}

function Diff({ dream }: { dream: DreamView }) {
  const diff = useQuery(dreamDiffQuery(dream.id));
  return (
    <section aria-label="Changes">
      <Title order={2} size="h5" mb="xs">
        Changes
      </Title>
      <QueryView query={diff}>
        {(diff) => (diff === "" ? <Text size="sm">Nothing of it is left to show.</Text> : <UnifiedDiff diff={diff} />)}
      </QueryView>
    </section>
  );
}

function Acts({ dream }: { dream: DreamView }) {
  const path = { dream: dream.id };
  if (dream.ended_at === null) {
    return (
      <ActButton
        act={() => circadia.cancelDream({ path })}
        success="The dream is canceled."
        warning="The dream ends. What it has read is kept for the next one."
      >
        Cancel
      </ActButton>
    );
  }
  return isOfFolder(dream) && dream.entry !== null ? <FolderActs dream={dream} /> : null;
}

function FolderActs({ dream }: { dream: DreamView }) {
  const folder = useQuery(folderQuery(dream.inputs[0]!.name));
  const path = { dream: dream.id };
  if (folder.data === undefined) return null;
  // What is left after an answer by file is a further entry, with a number behind the first one's id.
  if (folder.data.waiting === dream.entry || folder.data.waiting?.startsWith(`${dream.entry}-`)) {
    return (
      <Group gap="xs">
        <ActButton act={() => circadia.acceptDream({ path })} success="The changes are written.">
          Accept
        </ActButton>
        <ActButton
          act={() => circadia.refuseDream({ path })}
          success="The changes are dropped."
          warning="The changes are dropped, and no later dream proposes the same."
        >
          Refuse
        </ActButton>
      </Group>
    );
  }
  const entry = folder.data.history.find(({ id }) => id === dream.entry);
  return (
    <ActButton
      act={() => circadia.undoDream({ path })}
      success="What the dream had replaced is restored."
      warning="Restores what the dream has replaced. Later changes of other lines stay."
      barrier={entry === undefined || entry.published.length === 0 ? "The dream has written nothing." : undefined}
    >
      Undo
    </ActButton>
  );
}

function isOfFolder(dream: DreamView): boolean {
  return dream.inputs[0]!.type === "folder";
}
