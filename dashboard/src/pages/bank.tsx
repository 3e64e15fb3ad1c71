import type { BankView } from "@circadia/client";
import { SimpleGrid, Stack, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearchParams } from "wouter";

import { BankSearch } from "../parts/bank-search";
import { BlockList } from "../parts/block-list";
import { EpisodeList } from "../parts/episode-list";
import { ForgetForm } from "../parts/forget-form";
import { NoteDrawer } from "../parts/note-drawer";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Stat } from "../parts/stat";
import { Ago } from "../parts/time";
import { formatCount } from "../server/format";
import { bankQuery } from "../server/memory-queries";

/** One bank: what it finds, what was said, and what is in each prompt. */
export default function BankPage() {
  const { bank = "" } = useParams<{ bank: string }>();
  const query = useQuery(bankQuery(decodeURIComponent(bank)));
  return <QueryView query={query}>{(bank) => <BankDetails key={bank.id} bank={bank} />}</QueryView>;
}

function BankDetails({ bank }: { bank: BankView }) {
  const [params, setParams] = useSearchParams();
  const note = params.get("note");
  const skipped = Object.entries(bank.skipped);
  const skips = skipped.map(([reason, count]) => `${formatCount(count)} ${reason.replaceAll("_", " ")}`).join(", ");
  return (
    <Stack>
      <PageTitle about={bank.description}>{bank.name}</PageTitle>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        <Stat label="Episodes">{formatCount(bank.episodes)}</Stat>
        <Stat label="Last episode">{bank.written_at === null ? "none" : <Ago at={bank.written_at} />}</Stat>
        <Stat label="Skipped turns" note={skips}>
          {formatCount(skipped.reduce((sum, [, count]) => sum + count, 0))}
        </Stat>
      </SimpleGrid>
      <Tabs
        value={params.get("tab") ?? "search"}
        onChange={(tab) => setParams(tab === null || tab === "search" ? {} : { tab }, { replace: true })}
        keepMounted={false}
      >
        <Tabs.List aria-label="In this bank">
          <Tabs.Tab value="search">Search</Tabs.Tab>
          <Tabs.Tab value="episodes">Episodes</Tabs.Tab>
          <Tabs.Tab value="blocks">Blocks</Tabs.Tab>
          <Tabs.Tab value="forget">Forget</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="search" pt="md">
          <BankSearch bank={bank.name} />
        </Tabs.Panel>
        <Tabs.Panel value="episodes" pt="md">
          <EpisodeList bank={bank.name} />
        </Tabs.Panel>
        <Tabs.Panel value="blocks" pt="md">
          <BlockList bank={bank.name} />
        </Tabs.Panel>
        <Tabs.Panel value="forget" pt="md">
          <ForgetForm bank={bank.name} />
        </Tabs.Panel>
      </Tabs>
      {note !== null && (
        <NoteDrawer
          bank={bank.name}
          note={note}
          onClose={() => setParams((shown) => (shown.delete("note"), shown), { replace: true })}
        />
      )}
    </Stack>
  );
}
