import type { EpisodeView, ForgottenView } from "@circadia/client";
import { Group, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { episodesQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { Empty } from "./empty";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

const COLUMNS: Column<EpisodeView>[] = [
  { id: "at", header: "When", width: "6rem", cell: (episode) => <Ago at={episode.at} />, sortValue: (episode) => episode.at },
  { id: "speaker", header: "Speaker", width: "1fr", cell: (episode) => <Name text={episode.speaker} />, sortValue: (episode) => episode.speaker },
  { id: "text", header: "Text", width: "4fr", cell: (episode) => <Name text={episode.text} /> },
  { id: "kind", header: "Kind", width: "4rem", cell: (episode) => <Text size="sm">{episode.kind}</Text>, sortValue: (episode) => episode.kind, isWideOnly: true },
  { id: "trust", header: "Source", width: "5rem", cell: (episode) => <Text size="sm">{episode.trust}</Text>, sortValue: (episode) => episode.trust, isWideOnly: true },
];

/** The newest episodes of a bank; some or one can be forgotten, with all that was derived. */
export function BankEpisodes({ bank }: { bank: string }) {
  const episodes = useQuery(episodesQuery(bank));
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  return (
    <QueryView query={episodes}>
      {(episodes) => {
        const ids = episodes.map(({ id }) => id).filter((id) => chosen.has(id));
        return (
          <Stack>
            <Group justify="space-between" mih={30}>
              <Text size="sm" role="status">
                The newest {formatNumberOf(episodes.length, "episode")}
                {ids.length > 0 && `, ${ids.length} selected`}
              </Text>
              {ids.length > 0 && <ForgetEpisodes key={ids.join()} bank={bank} ids={ids} />}
            </Group>
            <VirtualTable
              label="Episodes"
              rows={episodes}
              rowKey={(episode) => episode.id}
              columns={COLUMNS}
              selection={{ chosen, onChange: setChosen }}
              empty={<Empty>No episode yet. Calls of agents that are bound to this bank become episodes.</Empty>}
            />
          </Stack>
        );
      }}
    </QueryView>
  );
}

/** Forget episodes, after a look at how much goes with them. */
function ForgetEpisodes({ bank, ids }: { bank: string; ids: string[] }) {
  const forget = (isPreview: boolean): Promise<ForgottenView> =>
    circadia.forgetEpisodes({ path: { bank }, body: { ids, ...(isPreview && { dry_run: true }) } });
  const preview = useMutation({ mutationFn: () => forget(true) });
  const loss = preview.data;
  return (
    <Group gap="xs">
      <ActButton act={() => preview.mutateAsync()} success="Nothing was deleted yet.">
        What would go?
      </ActButton>
      {loss && (
        <Text size="sm" role="status">
          {formatNumberOf(loss.episodes, "episode")}, {formatNumberOf(loss.notes, "note")}, {formatNumberOf(loss.versions, "version")} of blocks
        </Text>
      )}
      <ActButton
        subject={formatNumberOf(ids.length, "episode")}
        act={() => forget(false)}
        success="The episodes are forgotten."
        warning="They are deleted with everything derived from them: notes, lines of blocks, ready answers. This cannot be undone."
      >
        Forget
      </ActButton>
    </Group>
  );
}
