import type { RoutineBody, RoutineView, ScheduleView } from "@circadia/client";
import { Group, Text, Title } from "@mantine/core";
import { useState } from "react";

import { entriesOf, type Entry, newName, type Problem } from "../server/schedule-draft";
import { useActBarrier } from "../server/session";
import type { DraftState } from "../server/use-draft";
import { BarredButton } from "./barred-button";
import { describeRule } from "./describe-schedule";
import { Empty } from "./empty";
import { EntryState } from "./entry-state";
import { Name } from "./name";
import { RoutineForm } from "./routine-form";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

const NEW: RoutineBody = { name: "routine", instructions: "", cron: "0 9 * * mon", enabled: true };

interface Row extends Entry<RoutineBody> {
  /** The routine as it is on the server, if it is there. */
  saved: RoutineView | undefined;
}

interface RoutineListProps {
  saved: ScheduleView;
  draft: DraftState;
  problems: readonly Problem[];
}

/** The routines of a schedule's draft, and the form of one. */
export function RoutineList({ saved, draft, problems }: RoutineListProps) {
  const [open, setOpen] = useState<string>();
  const barrier = useActBarrier() ?? (draft.saving.isPending ? "The schedule is being saved." : undefined);
  const byName = new Map(saved.routines.map((routine) => [`routine ${routine.name}`, routine]));
  const rows = entriesOf<RoutineBody>("routine", draft.values).map((entry): Row => ({ ...entry, saved: byName.get(entry.name) }));
  const add = () => {
    const name = newName("routine", draft.values);
    draft.change({ [name]: { ...NEW, name: freeName(rows) } });
    setOpen(name);
  };
  const opened = rows.find(({ name }) => name === open);
  return (
    <section aria-label="Routines">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Routines
        </Title>
        <BarredButton onClick={add} barrier={barrier}>
          Add a routine
        </BarredButton>
      </Group>
      <VirtualTable
        label={`Routines of ${saved.agent}`}
        rows={rows}
        rowKey={(row) => row.name}
        narrowRowHeight={96}
        columns={columnsFor({ draft, problems, barrier, open, setOpen })}
        empty={<Empty>No routine yet. A routine starts the agent at an interval, by a cron rule, or at single instants.</Empty>}
      />
      {opened && (
        <RoutineForm
          key={opened.name}
          routine={opened.body}
          zone={saved.zone}
          problems={problems.filter(({ entry }) => entry === opened.name)}
          isDisabled={barrier !== undefined}
          onChange={(body) => draft.change({ [opened.name]: body })}
          onClose={() => setOpen(undefined)}
        />
      )}
    </section>
  );
}

/** Return a name for a new routine that no other has; a draft without a name could not be tried. */
function freeName(rows: readonly Row[]): string {
  const names = new Set(rows.map(({ body }) => body.name));
  let name = NEW.name;
  for (let number = 2; names.has(name); number++) name = `${NEW.name}-${number}`;
  return name;
}

interface ActProps {
  draft: DraftState;
  problems: readonly Problem[];
  barrier: string | undefined;
  open: string | undefined;
  setOpen: (name: string | undefined) => void;
}

function columnsFor(props: ActProps): Column<Row>[] {
  return [
    {
      id: "name",
      header: "Routine",
      width: "2fr",
      cell: (row) => (
        <>
          <Name text={row.body.name || "no name yet"} />
          {row.body.enabled === false && (
            <Text size="xs" span>
              off
            </Text>
          )}
          <EntryState name={row.name} {...props} />
        </>
      ),
      sortValue: (row) => row.body.name,
    },
    { id: "rule", header: "When", width: "2fr", cell: (row) => <Name text={describeRule(row.body)} mono /> },
    { id: "next", header: "Next", width: "7rem", cell: ({ saved }) => (saved?.next_at ? <Ago at={saved.next_at} /> : "–"), isWideOnly: true },
    { id: "last", header: "Last", width: "6rem", cell: ({ saved }) => (saved?.last_at ? <Ago at={saved.last_at} /> : "never"), isWideOnly: true },
    { id: "missed", header: "Missed", width: "4rem", cell: ({ saved }) => saved?.missed ?? 0, isNumber: true, isWideOnly: true },
    { id: "acts", header: "Acts", width: "14rem", narrowWidth: "5rem", cell: (row) => <RoutineActs row={row} {...props} /> },
  ];
}

function RoutineActs({ row, draft, barrier, open, setOpen }: ActProps & { row: Row }) {
  const { name, body } = row;
  const button = { size: "compact-xs", subject: body.name || "the new routine", barrier };
  return (
    <Group gap={4}>
      <BarredButton {...button} onClick={() => setOpen(name)} isPressed={open === name}>
        Edit
      </BarredButton>
      <BarredButton {...button} onClick={() => draft.change({ [name]: { ...body, enabled: body.enabled === false } })}>
        {body.enabled === false ? "Turn on" : "Turn off"}
      </BarredButton>
      <BarredButton {...button} onClick={() => draft.change({ [name]: undefined })}>
        Remove
      </BarredButton>
    </Group>
  );
}
