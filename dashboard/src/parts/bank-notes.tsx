import type { NoteState, NoteView } from "@circadia/client";
import { Anchor, SegmentedControl, Stack } from "@mantine/core";
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearchParams } from "wouter";

import { formatCount, formatNumberOf } from "../server/format";
import { notesQuery } from "../server/queries";
import { Empty } from "./empty";
import { Name } from "./name";
import { OlderRows } from "./older-rows";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

const STATES = [
  { value: "all", label: "all" },
  { value: "live", label: "in use" },
  { value: "retired", label: "retired" },
];
const NONE: Record<string, string> = {
  all: "No note yet. Passes derive notes from what was said; to begin one:",
  live: "No note is in use. Passes derive notes from what was said; to begin one:",
  retired: "No note is retired. A pass retires one that others contradict or repeat; to begin one:",
};

/** What passes have derived from the episodes, newest first; a note opens with its evidence. */
export function BankNotes({ bank }: { bank: string }) {
  const [params, setParams] = useSearchParams();
  const state = params.get("state") ?? "all";
  const client = useQueryClient();
  const options = notesQuery(bank, state === "all" ? undefined : (state as NoteState));
  const notes = useInfiniteQuery(options);
  const hrefOf = (note: string) => `/banks/${encodeURIComponent(bank)}?${new URLSearchParams({ tab: "notes", state, note })}`;
  return (
    <Stack>
      <SegmentedControl
        aria-label="State"
        data={STATES}
        value={state}
        onChange={(chosen) => setParams({ tab: "notes", state: chosen })}
        style={{ alignSelf: "flex-start" }}
      />
      <QueryView query={notes}>
        {({ rows, isNewest }) => (
          <>
            <VirtualTable
              label="Notes"
              rows={rows}
              isPart={notes.hasNextPage || !isNewest}
              rowKey={(note) => note.id}
              columns={columnsFor(hrefOf)}
              empty={<Empty command={`circadia passes run ${bank} --wait`}>{NONE[state]}</Empty>}
            />
            <OlderRows
              query={notes}
              count={formatNumberOf(rows.length, "note")}
              onNewest={isNewest ? undefined : () => void client.resetQueries({ queryKey: options.queryKey })}
            />
          </>
        )}
      </QueryView>
    </Stack>
  );
}

function columnsFor(hrefOf: (note: string) => string): Column<NoteView>[] {
  return [
    { id: "at", header: "When", width: "6rem", cell: (note) => <Ago at={note.at} />, sortValue: (note) => note.at },
    {
      id: "text",
      header: "Note",
      width: "5fr",
      cell: (note) => (
        <Anchor component={Link} href={hrefOf(note.id)} className="name">
          <Name text={note.text} />
        </Anchor>
      ),
    },
    { id: "kind", header: "Kind", width: "8rem", cell: (note) => note.kind, sortValue: (note) => note.kind, isWideOnly: true },
    { id: "trust", header: "Trust", width: "5rem", cell: (note) => note.trust, sortValue: (note) => note.trust, isWideOnly: true },
    {
      id: "state",
      header: "State",
      width: "7rem",
      narrowWidth: "4rem",
      cell: (note) => (note.retired_at === null ? "in use" : <>retired <Ago at={note.retired_at} /></>),
      sortValue: (note) => note.retired_at ?? "",
      isWideOnly: true,
    },
    {
      id: "evidence",
      header: "Evidence",
      width: "5.5rem",
      cell: (note) => formatCount(note.evidence_count),
      sortValue: (note) => note.evidence_count,
      isNumber: true,
    },
  ];
}
