import type { EpisodeView, SearchBankData } from "@circadia/client";
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { circadia } from "./circadia";
import { query } from "./queries";

/** Episodes have no events: a page that shows them asks again after so long. */
const EPISODES_MILLISECONDS = 5_000;
const MOST_BANKS = 1_000;
const PAGE = 500;

export const banksQuery = queryOptions({
  ...query(["banks"], ({ signal }) => circadia.listBanks({ query: { limit: MOST_BANKS }, signal })),
  refetchInterval: EPISODES_MILLISECONDS,
});

export const bankQuery = (bank: string) => query(["banks", bank], ({ signal }) => circadia.showBank({ path: { bank }, signal }));

export type SearchFilter = Omit<SearchBankData["query"], "q" | "limit">;

export const searchQuery = (bank: string, q: string, filter: SearchFilter) =>
  query(["memory", "search", bank, q, JSON.stringify(filter)], async ({ signal }) => {
    return (await circadia.searchBank({ path: { bank }, query: { q, limit: 50, ...filter }, signal })).hits;
  });

/** The episodes of a bank, newest first, page by page. */
export const episodesQuery = (bank: string, conversation: string) =>
  infiniteQueryOptions({
    queryKey: ["memory", "episodes", bank, conversation] as const,
    queryFn: ({ pageParam: after, signal }) =>
      circadia.listEpisodes({
        path: { bank },
        query: { order: "newest", limit: PAGE, ...(conversation && { conversation }), ...(after !== null && { after }) },
        signal,
      }),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.after,
    select: ({ pages }): EpisodeView[] => pages.flatMap(({ episodes }) => episodes),
    refetchInterval: EPISODES_MILLISECONDS,
  });

export const noteQuery = (bank: string, note: string) =>
  query(["memory", "note", bank, note], ({ signal }) => circadia.explainNote({ path: { bank, note }, signal }));

export const blocksQuery = (bank: string) =>
  query(["blocks", bank], async ({ signal }) => (await circadia.listBlocks({ path: { bank }, signal })).blocks);

/** All versions of a block, oldest first. */
export const versionsQuery = (bank: string, label: string) =>
  query(["blocks", bank, label], async ({ signal }) => (await circadia.listVersions({ path: { bank, label }, signal })).blocks);
