import type { OverviewView } from "@circadia/client";
import { Anchor, Text, Title } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { allPassesQuery, changesQuery, passQuery } from "../server/queries";
import { Change } from "./change";
import { Name } from "./name";
import { Ago } from "./time";

/** The newest change of memory that waits for a person, or else the newest one that was published. */
export function LastChange({ overview }: { overview: OverviewView }) {
  const staged = overview.attention.find(({ kind }) => kind === "proposals")?.page.split("/").at(-1);
  const passes = useInfiniteQuery({ ...allPassesQuery(["succeeded"]), enabled: staged === undefined });
  const pass = staged ?? passes.data?.[0]?.id;
  return (
    <div>
      <Title order={2} size="h5" mb="xs">
        Last change of memory
      </Title>
      {pass === undefined ? <Text size="sm">No pass has changed anything yet.</Text> : <OfPass pass={pass} />}
    </div>
  );
}

function OfPass({ pass }: { pass: string }) {
  const run = useQuery(passQuery(pass)).data;
  const changes = useQuery(changesQuery(pass)).data ?? [];
  const shown = changes.find(({ state }) => state === "staged") ?? changes.findLast(({ state }) => state === "published");
  if (run === undefined) return null;
  return (
    <>
      <Text size="xs" c="dimmed" mb={4}>
        pass over <Name text={run.bank} />, <Ago at={run.ended_at ?? run.created_at} />
      </Text>
      {shown && (
        <ul className="plain-list">
          <Change bank={run.bank} change={shown} barrier={undefined} undoBarrier={undefined} />
        </ul>
      )}
      <Anchor component={Link} href={`/passes/${pass}`} size="sm">
        All changes of this pass
      </Anchor>
    </>
  );
}
