import type {
  AgentView, AlertRecordView, ApprovalView, BankList, BankView, CallList, CallView, ChangeList, ChangeView, DreamView, EpisodePage, EpisodeView, ListWakesData, MessageList, NoteState, NoteView, PassStatus, PassView,
  ReportUsageData, SearchBankData, ShowContextData, UnhandledMessage, UnhandledPage, UsageReport, WaitingChangeView, WakeList, WakeView,
} from "@circadia/client"; // prettier-ignore
import { type InfiniteData, infiniteQueryOptions, type QueryClient, queryOptions } from "@tanstack/react-query";

import type { CallFilter } from "./call-filter";
import { circadia, showTaggedAgent } from "./circadia";
import { serverNow, startOfDay } from "./clock";
import { fetchPages } from "./pages";
import { referenceOf } from "./reference";
import type { Topic } from "./refresh";
import { joinLanes, type Range, windowOf } from "./timeline";

/** A query's key begins with the topic whose events refresh it. */
type Key = readonly [Topic, ...(string | number | undefined)[]];

/** Usage, and the use of ready answers, have no events: a page that shows them asks again after so long. */
const USAGE_MILLISECONDS = 5_000;
const HEALTH_MILLISECONDS = 10_000;
/** All wakes of a day are counted for them, so no event asks for them anew. */
const CIRCLES_MILLISECONDS = 30_000;
/** Episodes have no events either. */
const EPISODES_MILLISECONDS = 5_000;
const MOST_OF_A_PAGE = 2_000;
/** Most pages of a list of rows that the browser holds. */
const MOST_PAGES = 10;
const MOST_CHANGES = 10_000;
const MOST_MESSAGES = 1000;
const MOST_HELD_MESSAGES = 20_000;
const GREATEST_NUMBER = Number.MAX_SAFE_INTEGER;

function query<Data>(queryKey: Key, queryFn: (context: { signal: AbortSignal }) => Promise<Data>) {
  return queryOptions({ queryKey, queryFn });
}

export const overviewQuery = queryOptions({
  queryKey: ["overview"] as const,
  queryFn: ({ signal }) => circadia.showOverview({ signal }),
  refetchInterval: USAGE_MILLISECONDS,
});

/** An agent, with the entity tag of its settings. */
export type TaggedAgent = AgentView & { etag: string };

export const agentQuery = (session: string, agent: string) =>
  query(["agent", referenceOf(session, agent)], ({ signal }) => showTaggedAgent({ path: { session, agent }, signal }));

export const sessionsQuery = query(["sessions"], async ({ signal }) => {
  const pages = await fetchPages((after?: string) => circadia.listSessions({ query: { after }, signal }));
  return pages.flatMap(({ sessions }) => sessions);
});

/** Calls that this server holds, and how many the other servers hold; of an agent, or of all. */
export const holdsQuery = (limit = 1000, filter: { session?: string; agent?: string } = {}) =>
  query(["holds", limit, filter.session, filter.agent], ({ signal }) => circadia.listHolds({ query: { limit, ...filter }, signal }));

export type UsageGroup = NonNullable<NonNullable<ReportUsageData["query"]>["group_by"]>[number];

/** Usage since this many days before today; the day is part of the key, so that midnight begins a new one. */
export const usageQuery = (groupBy: readonly UsageGroup[], daysAgo = 0, filter: { session?: string; agent?: string } = {}, most = MOST_PAGES) => {
  const since = startOfDay(daysAgo);
  return queryOptions({
    queryKey: ["usage", groupBy.join(), since, filter.session, filter.agent, most] as const,
    queryFn: async ({ signal }): Promise<UsageReport> => {
      const pages = await fetchPages(
        (after?: string) => circadia.reportUsage({ query: { group_by: [...groupBy], since, after, ...filter }, signal }),
        most,
      );
      return { ...pages[0]!, usage: pages.flatMap(({ usage }) => usage) };
    },
    refetchInterval: USAGE_MILLISECONDS * groupBy.length ** 3, // two groupings make a long answer
  });
};

/** What sleeping and dreaming saved today, and in so many days before it; the day is part of the key. */
export const savingsQuery = (days: number) =>
  queryOptions({
    queryKey: ["usage", "savings", days, startOfDay()] as const,
    queryFn: ({ signal }) => circadia.reportSavings({ query: { days }, signal }),
    refetchInterval: USAGE_MILLISECONDS,
  });

/** Pages of 100 agents that a timeline holds. */
const MOST_TIMELINE_PAGES = 10;

/** What agents did in a range that ends now; of one agent, or of up to `pages` hundreds. */
export const timelineQuery = (range: Range, filter: { session?: string; agent?: string } = {}, pages = MOST_TIMELINE_PAGES) =>
  query(["timeline", range, filter.session, filter.agent, pages], async ({ signal }) => {
    const window = windowOf(range, serverNow());
    const since = new Date(window.since).toISOString();
    const until = range === "yesterday" ? { until: new Date(window.until).toISOString() } : {}; // else it ends now
    const found = await fetchPages((after?: string) => circadia.showTimeline({ query: { since, ...until, after, ...filter }, signal }), pages);
    return { lanes: joinLanes(found.flatMap(({ lanes }) => lanes)), isCut: found.at(-1)?.next != null };
  });

/** What the fleet did by quarter of an hour, since so many days before today. */
export const timelineSumsQuery = (daysAgo: number) => {
  const since = startOfDay(daysAgo);
  return queryOptions({
    queryKey: ["timeline", "sums", since] as const,
    queryFn: async ({ signal }) => (await circadia.sumTimeline({ query: { since, group_by: "fleet" }, signal })).sums,
    refetchInterval: HEALTH_MILLISECONDS * 3,
  });
};

/** Model calls, newest or dearest first, page by page; `pages` is how many were read, since one may be empty. */
export const callsQuery = (filter: CallFilter) =>
  infiniteQueryOptions({
    queryKey: ["calls", JSON.stringify(filter)] as const,
    queryFn: ({ pageParam, signal }): Promise<CallList> =>
      circadia.listCalls({ query: { ...filter, limit: 200, ...(pageParam !== null && { after: pageParam }) }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    select: ({ pages }): { rows: CallView[]; pages: number } => {
      const rows = pages.flatMap(({ calls }) => calls);
      if (filter.order === "cost") rows.sort((one, other) => (other.cost_usd ?? 0) - (one.cost_usd ?? 0));
      return { rows, pages: pages.length };
    },
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? USAGE_MILLISECONDS : false),
  });

export const callQuery = (call: string) => query(["calls", "one", call], ({ signal }) => circadia.showCall({ path: { call }, signal }));

export const searchAllQuery = (q: string, bank?: string) =>
  queryOptions({
    queryKey: ["search", q, bank] as const,
    queryFn: ({ signal }) => circadia.search({ query: { q, limit: 5, ...(bank && { bank }) }, signal }),
  });

/** What a bank adds to a prompt, for a question and within budgets. */
export const contextQuery = (bank: string, asked: NonNullable<ShowContextData["query"]>) =>
  query(["memory", "context", bank, JSON.stringify(asked)], ({ signal }) => circadia.showContext({ path: { bank }, query: asked, signal }));

export const sessionQuery = (session: string) =>
  query(["sessions", "one", session], ({ signal }) => circadia.showSession({ path: { session }, signal }));

export const tokensQuery = query(["tokens"], async ({ signal }) => (await circadia.listTokens({ signal })).tokens);

export const providersQuery = queryOptions({
  queryKey: ["providers"] as const,
  queryFn: async ({ signal }) => (await circadia.listUpstreams({ signal })).upstreams,
});

export const configurationQuery = queryOptions({
  queryKey: ["configuration"] as const,
  queryFn: ({ signal }) => circadia.showConfig({ signal }),
});

export const sleeptimeQuery = query(["sleeptime"], ({ signal }) => circadia.showSleeptimeOfAll({ signal }));

export const clusterQuery = queryOptions({
  queryKey: ["cluster"] as const,
  queryFn: async ({ signal }) => (await circadia.showCluster({ signal })).members,
  refetchInterval: HEALTH_MILLISECONDS,
});

/** Whether other servers have held calls too: each lists its own. */
export const isSharedQuery = queryOptions({ ...clusterQuery, select: (members) => members.filter(({ role }) => role !== "worker").length > 1 });

/** Whether the server that serves this page is ready: its database answers, and it does not stop. */
export const readinessQuery = queryOptions({
  queryKey: ["cluster", "ready"] as const,
  queryFn: async ({ signal }): Promise<string> => {
    const response = await fetch("/readyz", { signal });
    if (response.ok) return "";
    const problem = (await response.json().catch(() => null)) as { detail?: string } | null;
    return problem?.detail ?? `the server answers with status ${response.status}`;
  },
  refetchInterval: HEALTH_MILLISECONDS,
});

export const matrixQuery = () => {
  const since = startOfDay();
  return query(["wakes", "matrix", since], async ({ signal }) => (await circadia.wakeMatrix({ query: { since }, signal })).pairs);
};

export const wakesQuery = (agent?: string, limit = 200) =>
  query(["wakes", agent, limit], async ({ signal }) => {
    return (await circadia.listWakes({ query: { limit, ...(agent && { agent }) }, signal })).wakes;
  });

export type WakeFilter = Omit<NonNullable<ListWakesData["query"]>, "before" | "limit">;

/** The wakes of all agents, newest first, page by page. */
export const allWakesQuery = (filter: WakeFilter) =>
  infiniteQueryOptions({
    queryKey: ["wakes", "all", JSON.stringify(filter)] as const,
    queryFn: ({ pageParam, signal }): Promise<WakeList> =>
      circadia.listWakes({ query: { ...filter, limit: 200, ...(pageParam !== null && { before: pageParam }) }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.before,
    select: ({ pages }): WakeView[] => pages.flatMap(({ wakes }) => wakes),
  });

export const wakeQuery = (wake: string) =>
  query(["wakes", "one", wake], ({ signal }) => circadia.showWake({ path: { wake }, signal }));

export const chainQuery = (root: string) =>
  query(["wakes", "chain", root], ({ signal }) => circadia.showChain({ path: { root }, signal }));

/** Since when and why an agent sleeps or is awake, and what wakes it next; its changes refresh it. */
export const agentReasonQuery = (reference: string) =>
  query(["agent", reference, "why"], ({ signal }) => circadia.explainAgent({ path: { agent: reference }, signal }));

/** Agents that wake each other today; with an agent, the circles that it is in. */
export const circlesQuery = (agent?: string) =>
  queryOptions({
    ...query(["usage", "circles", agent], async ({ signal }) => (await circadia.listWakeCircles({ query: agent ? { agent } : {}, signal })).circles),
    refetchInterval: CIRCLES_MILLISECONDS,
  });

/** Why a message woke its recipients, or did not. */
export const messageWakesQuery = (message: string) =>
  query(["wakes", "message", message], async ({ signal }) => (await circadia.explainMessageWakes({ path: { message }, signal })).recipients);

export const wakeStatsQuery = (agent: string) =>
  query(["wakes", "stats", agent], ({ signal }) => circadia.wakeStats({ path: { agent }, signal }));

export const coordinationQuery = (agent: string) =>
  query(["coordination", agent], ({ signal }) => circadia.showCoordination({ path: { agent }, signal }));

export const pulsesQuery = (agent: string) =>
  query(["pulses", agent], async ({ signal }) => (await circadia.listPulses({ path: { agent }, query: { limit: 200 }, signal })).pulses);

export const inboxQuery = (agent: string, state: ("unread" | "leased" | "handled" | "dead")[]) =>
  query(["inbox", agent, state.join()], ({ signal }) =>
    circadia.showInbox({ path: { agent }, query: { state, limit: 200 }, signal }),
  );

/** The messages of all agents that nobody has handled, in one state, newest first, page by page. */
export const unhandledQuery = (state: "dead" | "unread") =>
  infiniteQueryOptions({
    queryKey: ["inbox", "of all agents", state] as const,
    queryFn: ({ pageParam, signal }): Promise<UnhandledPage> =>
      circadia.listUnhandledMessages({ query: { state: [state], limit: 200, ...(pageParam && { before: pageParam }) }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.before,
    select: ({ pages }): UnhandledMessage[] => pages.flatMap(({ messages }) => messages),
  });

export const threadsQuery = (session: string) =>
  query(["threads", session], async ({ signal }) => {
    const pages = await fetchPages((after?: string) => circadia.listThreads({ path: { session }, query: { after }, signal }), MOST_PAGES);
    return pages.flatMap(({ threads }) => threads);
  });

/** What is held of a thread: messages in order, the number of the last one, and whether there are older ones. */
interface HeldMessages extends MessageList {
  hasOlder: boolean;
}

/** The newest messages of a thread, oldest first; another reading begins where the last one ended. */
export const messagesQuery = (session: string, thread: string) =>
  queryOptions({
    queryKey: ["threads", session, thread] as const,
    queryFn: async ({ client, queryKey, signal }): Promise<HeldMessages> => {
      const path = { session, thread };
      const known = client.getQueryData<HeldMessages>(queryKey);
      if (known === undefined || known.messages.length === 0) {
        const newest = await circadia.listMessages({ path, query: { before: GREATEST_NUMBER, limit: MOST_MESSAGES }, signal });
        return { ...newest, hasOlder: newest.messages.length === MOST_MESSAGES };
      }
      let { messages, after } = known;
      for (;;) {
        const page = await circadia.listMessages({ path, query: { after, limit: MOST_MESSAGES }, signal });
        messages = [...messages, ...page.messages];
        after = page.after;
        if (page.messages.length < MOST_MESSAGES) break;
      }
      const kept = messages.slice(-MOST_HELD_MESSAGES);
      return { messages: kept, after, hasOlder: known.hasOlder || kept.length < messages.length };
    },
  });

/** Put older messages before those that are held. */
export async function readOlderMessages(client: QueryClient, session: string, thread: string): Promise<void> {
  const { queryKey } = messagesQuery(session, thread);
  const first = client.getQueryData(queryKey)?.messages[0];
  if (first === undefined) return;
  const query = { before: first.number, limit: MOST_MESSAGES };
  const page = await circadia.listMessages({ path: { session, thread }, query });
  client.setQueryData(queryKey, (known) =>
    known && { ...known, messages: [...page.messages, ...known.messages], hasOlder: page.messages.length === MOST_MESSAGES });
}

export const scheduleQuery = (agent: string) =>
  query(["schedule", agent], ({ signal }) => circadia.showSchedule({ path: { agent }, signal }));

/** Banks whose name begins with a text, by name, page by page. */
export const banksQuery = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["banks", "all", name] as const,
    queryFn: ({ pageParam, signal }): Promise<BankList> =>
      circadia.listBanks({ query: { limit: 500, ...(name && { name }), ...(pageParam !== null && { after: pageParam }) }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.after,
    select: ({ pages }): BankView[] => pages.flatMap(({ banks }) => banks),
  });

export const bankQuery = (bank: string) =>
  queryOptions({
    ...query(["banks", bank], ({ signal }) => circadia.showBank({ path: { bank }, signal })),
    refetchInterval: EPISODES_MILLISECONDS,
  });

/** Rows of the pages that are held; a long list drops its newest pages while older ones are read. */
export interface Rows<Row> {
  rows: Row[];
  isNewest: boolean;
}

function rowsOf<Row>(pages: Row[][], pageParams: unknown[]): Rows<Row> {
  return { rows: pages.flat(), isNewest: pageParams[0] === null };
}

/** The episodes of a bank, newest first, page by page; the empty conversation means all. */
export const episodesQuery = (bank: string, conversation: string) =>
  infiniteQueryOptions({
    queryKey: ["memory", "episodes", bank, conversation] as const,
    queryFn: ({ pageParam, signal }) => listEpisodes(bank, conversation, pageParam, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.after,
    maxPages: MOST_PAGES,
    select: ({ pages, pageParams }): Rows<EpisodeView> => rowsOf(pages.map(({ episodes }) => episodes), pageParams),
  });

export const episodeQuery = (bank: string, episode: string) =>
  query(["memory", "episode", bank, episode], ({ signal }) => circadia.showEpisode({ path: { bank, episode }, signal }));

/** Adds episodes that are new to the first page of those above; the older pages are not read again. */
export const newEpisodesQuery = (bank: string, conversation: string) =>
  queryOptions({
    queryKey: ["memory", "new episodes", bank, conversation] as const,
    queryFn: async ({ client, signal }) => {
      const newest = await listEpisodes(bank, conversation, null, signal);
      client.setQueryData(episodesQuery(bank, conversation).queryKey, (known) => known && addEpisodes(known, newest));
      return null;
    },
    refetchInterval: EPISODES_MILLISECONDS,
  });

function listEpisodes(bank: string, conversation: string, after: number | null, signal: AbortSignal): Promise<EpisodePage> {
  return circadia.listEpisodes({
    path: { bank },
    query: { order: "newest", limit: 500, ...(conversation && { conversation }), ...(after !== null && { after }) },
    signal,
  });
}

/** Add newer episodes above the pages that are there; begin anew if others may be missing in between. */
function addEpisodes(known: InfiniteData<EpisodePage>, newest: EpisodePage): InfiniteData<EpisodePage> {
  if (known.pageParams[0] !== null) return known; // the newest page is no longer held
  const [first, ...older] = known.pages;
  const ids = new Set(known.pages.flatMap(({ episodes }) => episodes.map(({ id }) => id)));
  const added = newest.episodes.filter(({ id }) => !ids.has(id));
  if (first === undefined || added.length === 0) return known;
  const isApart = newest.after !== null && added.length === newest.episodes.length;
  if (isApart || first.episodes.length > MOST_OF_A_PAGE) return { pages: [newest], pageParams: [null] };
  return { ...known, pages: [{ ...first, episodes: [...added, ...first.episodes] }, ...older] };
}

type SearchFilter = Omit<SearchBankData["query"], "q" | "limit">;

export const searchQuery = (bank: string, q: string, filter: SearchFilter) =>
  query(["memory", "search", bank, q, JSON.stringify(filter)], async ({ signal }) => {
    return (await circadia.searchBank({ path: { bank }, query: { q, limit: 50, ...filter }, signal })).hits;
  });

export const noteQuery = (bank: string, note: string) =>
  query(["memory", "note", bank, note], ({ signal }) => circadia.explainNote({ path: { bank, note }, signal }));

/** The notes of a bank, newest first, page by page; no state means all. */
export const notesQuery = (bank: string, state?: NoteState) =>
  infiniteQueryOptions({
    queryKey: ["memory", "notes", bank, state] as const,
    queryFn: ({ pageParam, signal }) =>
      circadia.listNotes({
        path: { bank },
        query: { limit: 500, ...(state && { state }), ...(pageParam !== null && { after: pageParam }) },
        signal,
      }),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.after,
    maxPages: MOST_PAGES,
    select: ({ pages, pageParams }): Rows<NoteView> => rowsOf(pages.map(({ notes }) => notes), pageParams),
  });

export const blocksQuery = (bank: string) =>
  query(["blocks", bank], async ({ signal }) => (await circadia.listBlocks({ path: { bank }, signal })).blocks);

export const versionsQuery = (bank: string, label: string) =>
  query(["blocks", bank, label], async ({ signal }) => {
    const pages = await fetchPages((after?: number) => circadia.listVersions({ path: { bank, label }, query: { after }, signal }));
    return pages.flatMap(({ blocks }) => blocks);
  });

export const passesQuery = (bank: string) =>
  query(["passes", bank], async ({ signal }) => (await circadia.listPasses({ path: { bank }, query: { limit: 200 }, signal })).passes);

/** The passes over all banks, newest first, page by page; no status means all. */
export const allPassesQuery = (status: PassStatus[]) =>
  infiniteQueryOptions({
    queryKey: ["passes", "all", status.join()] as const,
    queryFn: ({ pageParam, signal }) =>
      circadia.listPassesOfAll({ query: { limit: 200, status, ...(pageParam !== null && { before: pageParam }) }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.before,
    select: ({ pages }): PassView[] => pages.flatMap(({ passes }) => passes),
  });

/** The dreams over folders and banks, newest first, page by page. */
export const dreamsQuery = infiniteQueryOptions({
  queryKey: ["dreams", "all"] as const,
  queryFn: ({ pageParam, signal }) => circadia.listDreams({ query: { limit: 200, ...(pageParam !== null && { before: pageParam }) }, signal }),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.before,
  select: ({ pages }): DreamView[] => pages.flatMap(({ dreams }) => dreams),
});

/** Dreams over folders whose changes wait for a person. */
export const waitingDreamsQuery = query(["dreams", "waiting"], async ({ signal }) =>
  (await circadia.listDreams({ query: { waits: true, limit: 100 }, signal })).dreams,
);

/** How much waits for a person, of each kind. */
export const forYouQuery = queryOptions({
  ...query(["for-you"], ({ signal }) => circadia.countForYou({ signal })),
  refetchInterval: 60_000,
});

/** Changes of passes over all banks that wait for a person, page by page. */
export const proposalsQuery = infiniteQueryOptions({
  queryKey: ["passes", "proposals"] as const,
  queryFn: ({ pageParam, signal }) => circadia.listProposals({ query: { limit: 50, ...(pageParam !== null && { after: pageParam }) }, signal }),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.after,
  select: ({ pages }): WaitingChangeView[] => pages.flatMap(({ proposals }) => proposals),
});

/** Raised alerts, newest first, page by page: all, or those that nobody has acknowledged. */
export const alertsQuery = (isOpen: boolean) =>
  infiniteQueryOptions({
    queryKey: ["alerts", isOpen] as const,
    queryFn: ({ pageParam, signal }) =>
      circadia.listAlerts({ query: { limit: 200, open: isOpen, ...(pageParam !== null && { before: pageParam }) }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.before,
    select: ({ pages }): AlertRecordView[] => pages.flatMap(({ alerts }) => alerts),
  });

export const dreamQuery = (dream: string) => query(["dreams", "one", dream], ({ signal }) => circadia.showDream({ path: { dream }, signal }));

/** What a dream over a folder changed or proposes, as a unified diff. */
export const dreamDiffQuery = (dream: string) =>
  query(["dreams", "diff", dream], async ({ signal }) => (await circadia.showDreamDiff({ path: { dream }, signal })).diff);

export const foldersQuery = query(["dreams", "folders"], async ({ signal }) => (await circadia.listMemoryFolders({ signal })).folders);

export const folderQuery = (folder: string) =>
  query(["dreams", "folder", folder], ({ signal }) => circadia.showMemoryFolder({ path: { folder }, signal }));

export const passQuery = (pass: string) => query(["passes", "one", pass], ({ signal }) => circadia.showPass({ path: { pass }, signal }));

/** All changes of a pass, up to a bound. */
export const changesQuery = (pass: string) =>
  query(["passes", "changes", pass], async ({ signal }) => {
    const changes: ChangeView[] = [];
    let after: number | null = 0;
    while (after !== null && changes.length < MOST_CHANGES) {
      const page: ChangeList = await circadia.listChanges({ path: { pass }, query: { after, limit: 1000 }, signal });
      changes.push(...page.changes);
      after = page.after;
    }
    return changes;
  });

const CHANGES_WITH_TEXTS = 100;

/** The texts that changes of a pass concern and rest on, by number: of the page that has this number. */
export const changeTextsQuery = (pass: string, number: number) => {
  const after = Math.floor((number - 1) / CHANGES_WITH_TEXTS) * CHANGES_WITH_TEXTS;
  return query(["passes", "texts", pass, after], async ({ signal }) => {
    const { changes } = await circadia.listChanges({ path: { pass }, query: { after, limit: CHANGES_WITH_TEXTS, texts: true }, signal });
    return new Map(changes.map(({ number, texts }) => [number, texts]));
  });
};

export const bankSleeptimeQuery = (bank: string) =>
  query(["sleeptime", bank], ({ signal }) => circadia.showSleeptime({ path: { bank }, signal }));

export const answersQuery = (bank: string) =>
  query(["answers", bank], async ({ signal }) => (await circadia.listAnswers({ path: { bank }, query: { limit: 1000 }, signal })).answers);

export const answerStatsQuery = (bank: string) =>
  queryOptions({
    ...query(["answers", "stats", bank], ({ signal }) => circadia.answerStats({ path: { bank }, signal })),
    refetchInterval: USAGE_MILLISECONDS,
  });

export const hooksQuery = query(["hooks"], async ({ signal }) => (await circadia.listHooks({ signal })).hooks);

export const hookDeliveriesQuery = (hook: string) =>
  query(["hooks", "deliveries", hook], async ({ signal }) => (await circadia.listHookDeliveries({ path: { hook }, signal })).deliveries);

/** Alarms and routines that agents set for themselves, page by page. */
export const alarmsQuery = infiniteQueryOptions({
  queryKey: ["alarms"] as const,
  queryFn: ({ pageParam, signal }) => circadia.listAlarms({ query: { limit: 200, ...(pageParam !== null && { page: pageParam }) }, signal }),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next,
  select: ({ pages }) => pages.flatMap(({ alarms }) => alarms),
});

/** The calls that wait for a person, newest first, page by page. */
export const approvalsQuery = infiniteQueryOptions({
  queryKey: ["approvals"] as const,
  queryFn: ({ pageParam, signal }) =>
    circadia.listApprovals({ query: { status: "pending", limit: 100, ...(pageParam !== null && { before: pageParam }) }, signal }),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.before,
  select: ({ pages }): ApprovalView[] => pages.flatMap(({ approvals }) => approvals),
});
