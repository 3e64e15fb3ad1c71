import type { BlackoutBody } from "@circadia/client";
import { Group, Title } from "@mantine/core";
import { useState } from "react";

import { entriesOf, type Entry, newName, type Problem } from "../server/schedule-draft";
import { useActBarrier } from "../server/session";
import type { DraftState } from "../server/use-draft";
import { BarredButton } from "./barred-button";
import { BlackoutForm, WEEKDAYS } from "./blackout-form";
import { describeTimes } from "./describe-schedule";
import { Empty } from "./empty";
import { EntryState } from "./entry-state";
import { Name } from "./name";
import { type Column, VirtualTable } from "./virtual-table";

const NEW: BlackoutBody = { label: "", start_time: "22:00", end_time: "06:00", weekdays: [...WEEKDAYS] };

/** The blackouts of a schedule's draft, and the form of one. */
export function BlackoutList({ zone, draft, problems }: { zone: string; draft: DraftState; problems: readonly Problem[] }) {
  const [open, setOpen] = useState<string>();
  const barrier = useActBarrier() ?? (draft.saving.isPending ? "The schedule is being saved." : undefined);
  const add = () => {
    const name = newName("blackout", draft.values);
    draft.change({ [name]: NEW });
    setOpen(name);
  };
  const rows = entriesOf<BlackoutBody>("blackout", draft.values);
  const opened = rows.find(({ name }) => name === open);
  const columns: Column<Entry<BlackoutBody>>[] = [
    {
      id: "label",
      header: "Blackout",
      width: "2fr",
      cell: ({ name, body }) => (
        <>
          <Name text={body.label || "no label"} />
          <EntryState name={name} draft={draft} problems={problems} />
        </>
      ),
    },
    { id: "when", header: "When", width: "3fr", cell: ({ body }) => <Name text={describeTimes(body)} /> },
    {
      id: "acts",
      header: "Acts",
      width: "9rem",
      narrowWidth: "5rem",
      cell: ({ name, body }) => {
        const button = { size: "compact-xs", subject: `the blackout ${body.label || describeTimes(body)}`, barrier };
        return (
          <Group gap={4}>
            <BarredButton {...button} onClick={() => setOpen(name)} isPressed={open === name}>
              Edit
            </BarredButton>
            <BarredButton {...button} onClick={() => draft.change({ [name]: undefined })}>
              Remove
            </BarredButton>
          </Group>
        );
      },
    },
  ];
  return (
    <section aria-label="Blackouts">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Blackouts
        </Title>
        <BarredButton onClick={add} barrier={barrier}>
          Add a blackout
        </BarredButton>
      </Group>
      <VirtualTable
        label="Blackouts"
        rows={rows}
        rowKey={(row) => row.name}
        narrowRowHeight={68}
        columns={columns}
        empty={<Empty>No blackout. In a blackout the agent is left alone: its runs wait, or are skipped.</Empty>}
      />
      {opened && (
        <BlackoutForm
          key={opened.name}
          blackout={opened.body}
          zone={zone}
          problems={problems.filter(({ entry }) => entry === opened.name)}
          isDisabled={barrier !== undefined}
          onChange={(body) => draft.change({ [opened.name]: body })}
          onClose={() => setOpen(undefined)}
        />
      )}
    </section>
  );
}
