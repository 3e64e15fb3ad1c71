import type { BankView } from "@circadia/client";
import { Anchor, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { formatCount } from "../server/format";
import { banksQuery } from "../server/memory-queries";

const COLUMNS: Column<BankView>[] = [
  { id: "name", header: "Bank", width: "2fr", cell: (bank) => <BankLink bank={bank.name} />, sortValue: (bank) => bank.name },
  { id: "description", header: "Description", width: "3fr", cell: (bank) => <Name text={bank.description} />, isWideOnly: true },
  { id: "user", header: "End user", width: "1fr", cell: (bank) => bank.end_user && <Name text={bank.end_user} />, isWideOnly: true },
  {
    id: "episodes",
    header: "Episodes",
    width: "6rem",
    cell: (bank) => formatCount(bank.episodes),
    sortValue: (bank) => bank.episodes,
    isNumber: true,
  },
  {
    id: "written",
    header: "Last episode",
    width: "7rem",
    cell: (bank) => (bank.written_at === null ? "none" : <Ago at={bank.written_at} />),
    sortValue: (bank) => bank.written_at ?? "",
  },
];

/** The banks, in which agents keep what they were told. */
export default function MemoryPage() {
  const banks = useQuery(banksQuery);
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  return (
    <Stack>
      <PageTitle about="Banks are isolated memories: episodes as they were said, notes that passes derive, and blocks for each prompt.">
        Memory
      </PageTitle>
      <TextInput label="Filter by name" value={text} onChange={(event) => setText(event.currentTarget.value)} maw={360} />
      <QueryView query={banks}>
        {({ banks, after }) => (
          <>
            {after !== null && <Text size="sm">The first {formatCount(banks.length)} banks by name.</Text>}
            <VirtualTable
              label="Banks"
              rows={banks.filter((bank) => bank.name.includes(wanted))}
              rowKey={(bank) => bank.id}
              columns={COLUMNS}
              initialSort={{ column: "name", isDescending: false }}
              empty={
                banks.length > 0 ? (
                  <Empty>No bank matches. Clear the filter to see all.</Empty>
                ) : (
                  <Empty command="circadia banks add team">
                    There is no bank yet. The first turn of an agent with a bank in its policy makes one, or you do:
                  </Empty>
                )
              }
            />
          </>
        )}
      </QueryView>
    </Stack>
  );
}

function BankLink({ bank }: { bank: string }) {
  return (
    <Anchor component={Link} href={`/memory/${encodeURIComponent(bank)}`} className="name">
      <Name text={bank} />
    </Anchor>
  );
}
