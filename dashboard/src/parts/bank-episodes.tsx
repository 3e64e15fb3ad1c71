import type { EpisodeView } from "@circadia/client";
import { Button, Drawer, Stack, TextInput } from "@mantine/core";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";

import { formatNumberOf } from "../server/format";
import { episodeQuery, episodesQuery, newEpisodesQuery } from "../server/queries";
import { useTypedPart, useViewPart } from "../server/view";
import { Empty } from "./empty";
import { EpisodeDetails } from "./episode-details";
import { ForgetPanel } from "./forget-panel";
import { Name } from "./name";
import { OlderRows } from "./older-rows";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

/** What was said, newest first, with who said it and how far it is trusted. */
export function BankEpisodes({ bank }: { bank: string }) {
  const [conversation, setConversation] = useTypedPart("conversation");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [shown, setShown] = useViewPart("episode");
  const wanted = useDeferredValue(conversation.trim());
  const client = useQueryClient();
  const episodes = useInfiniteQuery(episodesQuery(bank, wanted));
  useQuery(newEpisodesQuery(bank, wanted));
  return (
    <Stack>
      <TextInput
        label="Conversation"
        description="Its whole name; empty shows all"
        value={conversation}
        onChange={(event) => {
          setConversation(event.currentTarget.value);
          setChosen(new Set()); // what is hidden is not forgotten
        }}
        maw={360}
      />
      {chosen.size > 0 && (
        <ForgetPanel key={[...chosen].join()} bank={bank} selection={{ ids: [...chosen] }} onForgotten={() => setChosen(new Set())} />
      )}
      <QueryView query={episodes}>
        {({ rows, isNewest }) => (
          <>
            <VirtualTable
              label="Episodes"
              rows={rows}
              isPart={episodes.hasNextPage || !isNewest}
              rowKey={(episode) => episode.id}
              columns={columnsFor(({ id }) => setShown(id))}
              selection={{ chosen, onChange: setChosen }}
              empty={
                <Empty command={`circadia episodes add ${bank} "The release is on Friday." --speaker ann`}>
                  {wanted ? "This conversation has no episode here." : "Nothing was said yet. Capture stores the turns of the bank's agents, or you add one:"}
                </Empty>
              }
            />
            <OlderRows
              query={episodes}
              count={formatNumberOf(rows.length, "episode")}
              onNewest={isNewest ? undefined : () => void client.resetQueries({ queryKey: episodesQuery(bank, wanted).queryKey })}
            />
          </>
        )}
      </QueryView>
      {shown !== "" && <EpisodeDrawer bank={bank} episode={shown} onClose={() => setShown(null)} />}
    </Stack>
  );
}

function EpisodeDrawer({ bank, episode, onClose }: { bank: string; episode: string; onClose: () => void }) {
  const details = useQuery(episodeQuery(bank, episode));
  return (
    <Drawer opened onClose={onClose} title="The episode" position="right" size="lg">
      <QueryView query={details}>{(episode) => <EpisodeDetails episode={episode} />}</QueryView>
    </Drawer>
  );
}

function columnsFor(onShow: (episode: EpisodeView) => void): Column<EpisodeView>[] {
  return [
    { id: "at", header: "When", width: "6rem", narrowWidth: "4.5rem", cell: (episode) => <Ago at={episode.at} />, sortValue: (episode) => episode.at },
    { id: "speaker", header: "Speaker", width: "1fr", narrowWidth: "3.75rem", cell: (episode) => <Name text={episode.speaker} />, sortValue: (episode) => episode.speaker },
    { id: "text", header: "Text", width: "4fr", cell: (episode) => <Name text={episode.text} /> },
    { id: "kind", header: "Kind", width: "4rem", cell: (episode) => episode.kind, sortValue: (episode) => episode.kind, isWideOnly: true },
    { id: "trust", header: "Trust", width: "5rem", cell: (episode) => episode.trust, sortValue: (episode) => episode.trust, isWideOnly: true },
    {
      id: "more",
      header: "More",
      width: "4.5rem",
      narrowWidth: "3.25rem",
      cell: (episode) => (
        <Button size="compact-xs" variant="default" onClick={() => onShow(episode)} aria-label={`Show the episode of ${episode.speaker}`}>
          Show
        </Button>
      ),
    },
  ];
}
