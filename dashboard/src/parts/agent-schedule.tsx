import type { RoutineBody, RoutineView, ScheduleView } from "@circadia/client";
import { Button, Group, Modal, Select, Stack, Text, Textarea, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { formatDuration } from "../server/format";
import { scheduleQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { ActForm } from "./act-form";
import { Empty } from "./empty";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";
import { WeekChart } from "./week-chart";

/** The agent's routines and blackouts, and its next week. */
export function AgentSchedule({ reference }: { reference: string }) {
  const schedule = useQuery(scheduleQuery(reference));
  const [isAdding, setAdding] = useState(false);
  return (
    <QueryView query={schedule}>
      {(schedule) => (
        <Stack>
          <WeekChart schedule={schedule} />
          <NextRuns schedule={schedule} />
          <Group justify="space-between">
            <Title order={2} size="h5">
              Routines
            </Title>
            <Button size="xs" variant="default" onClick={() => setAdding(true)}>
              Add a routine
            </Button>
          </Group>
          {isAdding && <AddRoutine schedule={schedule} onClose={() => setAdding(false)} />}
          <VirtualTable
            label={`Routines of ${reference}`}
            rows={schedule.routines}
            rowKey={(routine) => routine.name}
            columns={columnsFor(schedule)}
            empty={<Empty>No routine yet. A routine starts the agent at an interval, by a cron rule, or at single instants.</Empty>}
          />
        </Stack>
      )}
    </QueryView>
  );
}

function NextRuns({ schedule }: { schedule: ScheduleView }) {
  const clock = new Intl.DateTimeFormat(undefined, { timeZone: schedule.zone, dateStyle: "medium", timeStyle: "short" });
  const next = schedule.occurrences.filter((each) => each.runs_at !== null).slice(0, 10);
  if (next.length === 0) return null;
  return (
    <Text size="sm" component="div">
      Next runs in {schedule.zone}: {next.map((each) => `${clock.format(new Date(each.runs_at!))} (${each.routine})`).join("; ")}
    </Text>
  );
}

function columnsFor(schedule: ScheduleView): Column<RoutineView>[] {
  return [
    { id: "name", header: "Routine", width: "2fr", cell: (routine) => <Name text={routine.name} />, sortValue: (routine) => routine.name },
    { id: "rule", header: "When", width: "2fr", cell: (routine) => <Name text={describeRule(routine)} mono /> },
    { id: "next", header: "Next", width: "7rem", cell: (routine) => (routine.next_at ? <Ago at={routine.next_at} /> : "–"), isWideOnly: true },
    { id: "last", header: "Last", width: "6rem", cell: (routine) => (routine.last_at ? <Ago at={routine.last_at} /> : "never"), isWideOnly: true },
    { id: "missed", header: "Missed", width: "4rem", cell: (routine) => routine.missed, isNumber: true, isWideOnly: true },
    {
      id: "acts",
      header: "Acts",
      width: "10rem",
      cell: (routine) => (
        <Group gap={4} wrap="nowrap">
          <ActButton
            size="compact-xs"
            subject={routine.name}
            act={() => saveRoutines(schedule, (other) => (other.name === routine.name ? [{ ...other, enabled: !other.enabled }] : [other]))}
            success={`${routine.name} is ${routine.enabled ? "off" : "on"}.`}
          >
            {routine.enabled ? "Turn off" : "Turn on"}
          </ActButton>
          <ActButton
            size="compact-xs"
            subject={routine.name}
            act={() => saveRoutines(schedule, (other) => (other.name === routine.name ? [] : [other]))}
            success={`${routine.name} is removed.`}
            warning="The agent is no longer started by this routine. Its past runs stay in the record."
          >
            Remove
          </ActButton>
        </Group>
      ),
    },
  ];
}

function describeRule(routine: RoutineView): string {
  if (routine.cron !== null) return routine.cron;
  if (routine.every_seconds !== null) return `every ${formatDuration(routine.every_seconds)}`;
  return routine.at.join(", ");
}

/** Return what the server takes of a routine that it has shown. */
function toBody({ zone, next_at, deferred_from, last_at, skips, missed, ...body }: RoutineView): RoutineBody {
  return body;
}

function saveRoutines(schedule: ScheduleView, change: (routine: RoutineBody) => RoutineBody[], added: RoutineBody[] = []): Promise<ScheduleView> {
  const routines = [...schedule.routines.map(toBody).flatMap(change), ...added];
  return circadia.setSchedule({ path: { agent: schedule.agent }, body: { routines } });
}

function AddRoutine({ schedule, onClose }: { schedule: ScheduleView; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [kind, setKind] = useState<"cron" | "every">("cron");
  const [rule, setRule] = useState("0 9 * * mon");
  const [instructions, setInstructions] = useState("");
  const adding = useMutation({
    mutationFn: () => {
      const when = kind === "cron" ? { cron: rule } : { every_seconds: Number(rule) * 60 };
      return saveRoutines(schedule, (routine) => [routine], [{ name, instructions, ...when }]);
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["schedule"] });
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title="Add a routine" centered>
      <ActForm mutation={adding} submitLabel="Add">
        <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} required data-autofocus />
        <Select
          label="Kind"
          data={[
            { value: "cron", label: "cron rule" },
            { value: "every", label: "interval in minutes" },
          ]}
          value={kind}
          onChange={(value) => {
            setKind(value === "every" ? "every" : "cron");
            setRule(value === "every" ? "60" : "0 9 * * mon");
          }}
          allowDeselect={false}
        />
        <TextInput
          label={kind === "cron" ? `Rule, in ${schedule.zone}` : "Minutes"}
          value={rule}
          onChange={(event) => setRule(event.currentTarget.value)}
          required
        />
        <Textarea
          label="Instructions"
          description="Empty means that the agent handles its inbox"
          value={instructions}
          onChange={(event) => setInstructions(event.currentTarget.value)}
          autosize
        />
      </ActForm>
    </Modal>
  );
}
