import type { BlackoutBody, Weekday } from "@circadia/client";
import { Checkbox, Group, Select, SimpleGrid } from "@mantine/core";

import type { Problem } from "../server/schedule-draft";
import { EntryForm } from "./entry-form";
import { type Field, FieldInput } from "./field-form";

export const WEEKDAYS: readonly Weekday[] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

interface BlackoutFormProps {
  blackout: BlackoutBody;
  zone: string;
  problems: readonly Problem[];
  isDisabled: boolean;
  onChange: (blackout: BlackoutBody) => void;
  onClose: () => void;
}

/** The label of a blackout and its times: each week, or once. */
export function BlackoutForm({ blackout, zone, problems, isDisabled, onChange, onClose }: BlackoutFormProps) {
  const { label = "" } = blackout;
  const isWeekly = blackout.start_time !== undefined;
  const [from, to] = isWeekly ? (["start_time", "end_time"] as const) : (["start", "end"] as const);
  const about = isWeekly ? `HH:MM, in ${zone}` : `Such as 2026-12-24T18:00, in ${zone}`;
  const messages = new Map(problems.map(({ field, message }) => [field || from, message]));
  const input = (field: Field) => (
    <FieldInput
      field={field}
      value={blackout[field.key as keyof BlackoutBody]}
      error={messages.get(field.key)}
      isDisabled={isDisabled}
      onChange={(value) => onChange({ ...blackout, [field.key]: value })}
    />
  );
  return (
    <EntryForm title={`Blackout ${label}`.trim()} onClose={onClose}>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 4 }} spacing="sm">
        {input({ key: "label", label: "Label", kind: "text", about: "For people" })}
        <Select
          label="Kind"
          data={[
            { value: "weekly", label: "each week" },
            { value: "once", label: "once" },
          ]}
          value={isWeekly ? "weekly" : "once"}
          onChange={(kind) =>
            onChange(
              kind === "weekly" ? { label, start_time: "22:00", end_time: "06:00", weekdays: [...WEEKDAYS] } : { label, start: "", end: "" },
            )
          }
          allowDeselect={false}
          disabled={isDisabled}
        />
        {input({ key: from, label: "From", kind: "text", about })}
        {input({ key: to, label: "To", kind: "text", about: isWeekly ? "A time not after “From” is on the next day" : about })}
      </SimpleGrid>
      {isWeekly && (
        <Checkbox.Group
          label="Days on which it starts"
          mt="sm"
          value={blackout.weekdays ?? [...WEEKDAYS]}
          onChange={(days) => onChange({ ...blackout, weekdays: WEEKDAYS.filter((day) => days.includes(day)) })}
          error={messages.get("weekdays")}
        >
          <Group gap="sm" mt={4}>
            {WEEKDAYS.map((day) => (
              <Checkbox key={day} size="xs" value={day} label={day} disabled={isDisabled} />
            ))}
          </Group>
        </Checkbox.Group>
      )}
    </EntryForm>
  );
}
