import type { RoutineBody } from "@circadia/client";
import { Alert, Button, Collapse, Select, SimpleGrid, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useState } from "react";

import { formatDuration } from "../server/format";
import type { Problem } from "../server/schedule-draft";
import { EntryForm } from "./entry-form";
import { type Field, FieldInput } from "./field-form";

const KINDS = {
  cron: { label: "cron rule", rule: { cron: "0 9 * * mon", every_seconds: null, at: [] } },
  every_seconds: { label: "interval", rule: { cron: null, every_seconds: 3600, at: [] } },
  at: { label: "single instants", rule: { cron: null, every_seconds: null, at: [] as string[] } },
};
type Kind = keyof typeof KINDS;
const AGENTS_OWN = "as the agent's settings say";
const MORE: Field[] = [
  { key: "misfire_grace_seconds", label: "Latest start in seconds", kind: "number", isNullable: true, about: "Later than this, a run is missed; empty means no limit" },
  { key: "timeout_seconds", label: "Longest run in seconds", kind: "number", isNullable: true, about: "Empty means the agent's limit" },
  { key: "jitter_seconds", label: "Random delay of each run in seconds", kind: "number", about: "At most so many" },
  { key: "stagger_seconds", label: "Random delay of all runs in seconds", kind: "number", about: "Drawn once" },
  { key: "anchor", label: "Interval counts from", kind: "text", isNullable: true, about: "A date and time; empty means Monday 2024-01-01" },
  { key: "offset_seconds", label: "Interval is later by seconds", kind: "number" },
];

interface RoutineFormProps {
  routine: RoutineBody;
  zone: string;
  problems: readonly Problem[];
  isDisabled: boolean;
  onChange: (routine: RoutineBody) => void;
  onClose: () => void;
}

/** All that a routine can have. */
export function RoutineForm({ routine, zone, problems, isDisabled, onChange, onClose }: RoutineFormProps) {
  const [kind, setKind] = useState<Kind>(kindOf(routine));
  const [isMore, more] = useDisclosure();
  const messages = new Map(problems.map(({ field, message }) => [placeOf(field, routine, kind), message]));
  const input = (field: Field) => (
    <FieldInput
      key={field.key}
      field={field}
      value={routine[field.key as keyof RoutineBody]}
      error={messages.get(field.key)}
      isDisabled={isDisabled}
      onChange={(value) => onChange({ ...routine, [field.key]: value })}
    />
  );
  return (
    <EntryForm title={`Routine ${routine.name}`} onClose={onClose}>
      <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="sm">
        {input({ key: "name", label: "Name", kind: "text" })}
        <Select
          label="Kind"
          data={Object.entries(KINDS).map(([value, { label }]) => ({ value, label }))}
          value={kind}
          onChange={(chosen) => {
            setKind(chosen as Kind);
            onChange({ ...routine, ...KINDS[chosen as Kind].rule });
          }}
          allowDeselect={false}
          disabled={isDisabled}
        />
        {input(ruleField(kind, routine, zone))}
      </SimpleGrid>
      {input({ key: "instructions", label: "Instructions", kind: "lines", about: "Empty means that the agent handles its inbox" })}
      <Button variant="subtle" size="compact-sm" mt="xs" onClick={more.toggle} aria-expanded={isMore}>
        {isMore ? "Fewer settings" : "More settings"}
      </Button>
      <Collapse expanded={isMore}>
        <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="sm">
          <Select
            label="In a blackout"
            data={[AGENTS_OWN, "run", "defer", "skip"]}
            value={routine.blackout_policy ?? AGENTS_OWN}
            onChange={(value) => onChange({ ...routine, blackout_policy: value === AGENTS_OWN ? null : (value as "run") })}
            allowDeselect={false}
            disabled={isDisabled}
          />
          {MORE.map(input)}
        </SimpleGrid>
      </Collapse>
      {!isMore && MORE.some(({ key }) => messages.has(key)) && (
        <Alert color="red" variant="outline" mt="xs">
          <Text size="sm">One of the further settings has an error: open “More settings”.</Text>
        </Alert>
      )}
    </EntryForm>
  );
}

/** Return the field that shows a message; what is said of the whole routine is about its rule, or its missing name. */
function placeOf(field: string, routine: RoutineBody, kind: Kind): string {
  if (field !== "") return field;
  return routine.name.trim() === "" ? "name" : kind;
}

function kindOf(routine: RoutineBody): Kind {
  if (typeof routine.cron === "string") return "cron";
  return typeof routine.every_seconds === "number" ? "every_seconds" : "at";
}

function ruleField(kind: Kind, routine: RoutineBody, zone: string): Field {
  switch (kind) {
    case "cron":
      return { key: kind, label: "Rule", kind: "text", about: `Minute, hour, day, month, weekday, in ${zone}` };
    case "every_seconds":
      return { key: kind, label: "Interval in seconds", kind: "number", about: formatDuration(routine.every_seconds ?? 0) };
    case "at":
      return { key: kind, label: "Instants", kind: "list", about: `Such as 2026-12-24T18:00, in ${zone}; Enter adds one` };
  }
}
