import type { DreamView } from "@circadia/client";
import { Anchor, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "wouter";

import { ActButton } from "../parts/act-button";
import { DreamActs } from "../parts/dream-acts";
import { DreamStatus } from "../parts/dream-status";
import { ForeignText, Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { DateTime } from "../parts/time";
import { UnifiedDiff } from "../parts/unified-diff";
import { circadia } from "../server/circadia";
import { formatNumberOf, formatUsd } from "../server/format";
import { dreamDiffQuery, dreamQuery } from "../server/queries";

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
          <Reviews dream={dream} />
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
          <DreamStatus dream={dream} />
        </Stat>
        <Stat label="What it did">
          <Text size="sm" className="foreign-text">
            {dream.summary || "nothing yet"}
          </Text>
        </Stat>
        <Stat label="Cost" note={`${formatNumberOf(dream.usage.calls, "call")}, ${formatNumberOf(dream.usage.tokens, "token")}`}>
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

/** Who has decided what, and when. */
function Reviews({ dream: { reviews } }: { dream: DreamView }) {
  if (reviews.length === 0) return null;
  return (
    <Stack component="ul" gap={2} m={0} pl="md" aria-label="Decisions">
      {reviews.map(({ act, by, at, files }) => (
        <Text key={`${at} ${act}`} size="sm" component="li">
          {act} by <Name text={by} />, <DateTime at={at} />
          {files.length > 0 && `: ${files.join(", ")}`}
        </Text>
      ))}
    </Stack>
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
  return isOfFolder(dream) && dream.entry !== null ? <DreamActs dream={dream} /> : null;
}

function isOfFolder(dream: DreamView): boolean {
  return dream.inputs[0]!.type === "folder";
}
