import type { BankView } from "@circadia/client";
import { Anchor, Stack, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { OlderRows } from "../parts/older-rows";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { formatCount, formatNumberOf } from "../server/format";
import { banksQuery } from "../server/queries";
import { useTypedPart } from "../server/view";

const COLUMNS: Column<BankView>[] = [
  {
    id: "name",
    header: "Bank",
    width: "2fr",
    cell: (bank) => (
      <Anchor component={Link} href={`/banks/${encodeURIComponent(bank.name)}`} className="name">
        <Name text={bank.name} />
      </Anchor>
    ),
    sortValue: (bank) => bank.name,
  },
  { id: "user", header: "End user", width: "1fr", cell: (bank) => <Name text={bank.end_user ?? ""} />, sortValue: (bank) => bank.end_user ?? "", isWideOnly: true },
  { id: "about", header: "Description", width: "2fr", cell: (bank) => <Name text={bank.description} />, isWideOnly: true },
  { id: "episodes", header: "Episodes", width: "6rem", cell: (bank) => formatCount(bank.episodes), sortValue: (bank) => bank.episodes, isNumber: true },
  { id: "written", header: "Written", width: "6rem", cell: (bank) => bank.written_at && <Ago at={bank.written_at} />, sortValue: (bank) => bank.written_at ?? "" },
];

/** The memory banks. */
export default function BanksPage() {
  const [text, setText, kept] = useTypedPart("name");
  const banks = useInfiniteQuery(banksQuery(kept.trim().toLowerCase()));
  return (
    <Stack>
      <PageTitle about="What agents remember: one bank for each end user, or for a team on purpose.">Memory</PageTitle>
      <TextInput
        label="Filter by name"
        description="The beginning of the name"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        maw={360}
      />
      <QueryView query={banks}>
        {(rows) => (
          <>
            <VirtualTable
              label="Banks"
              rows={rows}
              isPart={banks.hasNextPage}
              rowKey={(bank) => bank.id}
              columns={COLUMNS}
              initialSort={{ column: "name", isDescending: false }}
              empty={<Empty command="circadia banks add support">No bank here. An agent whose policy names one creates it; or:</Empty>}
            />
            <OlderRows query={banks} count={formatNumberOf(rows.length, "bank")} more="Show more" />
          </>
        )}
      </QueryView>
    </Stack>
  );
}
