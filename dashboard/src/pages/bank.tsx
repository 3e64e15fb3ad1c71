import { Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearchParams } from "wouter";

import { BankAnswers } from "../parts/bank-answers";
import { BankBlocks } from "../parts/bank-blocks";
import { BankEpisodes } from "../parts/bank-episodes";
import { BankMission } from "../parts/bank-mission";
import { BankNotes } from "../parts/bank-notes";
import { BankPasses } from "../parts/bank-passes";
import { BankSearch } from "../parts/bank-search";
import { ForgetForm } from "../parts/forget-form";
import { NoteDrawer } from "../parts/note-drawer";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { ViewTabs } from "../parts/view-tabs";
import { formatNumberOf } from "../server/format";
import { bankQuery } from "../server/queries";

const TABS = {
  search: ["Search", BankSearch],
  episodes: ["Episodes", BankEpisodes],
  notes: ["Notes", BankNotes],
  blocks: ["Blocks", BankBlocks],
  passes: ["Passes", BankPasses],
  answers: ["Ready answers", BankAnswers],
  forget: ["Forget", ForgetForm],
} as const;

/** One memory bank: what is in it, where it comes from, and what passes make of it. */
export default function BankPage() {
  const { bank = "" } = useParams<{ bank: string }>();
  const [params, setParams] = useSearchParams();
  const note = params.get("note");
  const query = useQuery(bankQuery(decodeURIComponent(bank)));
  return (
    <QueryView query={query}>
      {(bank) => (
        <Stack>
          <PageTitle about={formatNumberOf(bank.episodes, "episode")}>{bank.name}</PageTitle>
          <BankMission bank={bank} />
          {bank.model === null && <Text size="sm">Passes over this bank ask no model.</Text>}
          <ViewTabs
            label="About this bank"
            tabs={Object.entries(TABS).map(([value, [label, Panel]]) => ({ value, label, content: <Panel bank={bank.name} /> }))}
          />
          {note !== null && (
            <NoteDrawer
              bank={bank.name}
              note={note}
              onClose={() => setParams((shown) => (shown.delete("note"), shown))}
            />
          )}
        </Stack>
      )}
    </QueryView>
  );
}
