import { Button, Group, NumberInput, Select, SimpleGrid, Switch, TagsInput, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { useActBarrier } from "../server/session";

export interface Field {
  key: string;
  label: string;
  kind: "number" | "text" | "list" | "choice" | "switch";
  about?: string;
  choices?: string[];
  /** Whether an empty input means null. */
  isNullable?: boolean;
}

export type Values = Record<string, unknown>;

interface FieldFormProps {
  fields: readonly Field[];
  values: Values;
  save: (changes: Values) => Promise<unknown>;
  success: string;
}

/** A form for settings; it sends those that were changed here, and no others. */
export function FieldForm({ fields, values, save, success }: FieldFormProps) {
  const client = useQueryClient();
  const barrier = useActBarrier();
  const [changes, setChanges] = useState<Values>({});
  const saving = useMutation({
    mutationFn: () => save(changes),
    onSuccess: async () => {
      notifications.show({ color: "teal", message: success });
      await client.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "me" });
      setChanges({});
    },
    onError: (error) => notifications.show({ color: "red", title: "Not changed", message: error.message }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (barrier === undefined) saving.mutate();
  };
  const change = (key: string, value: unknown) => {
    const { [key]: _, ...others } = changes;
    setChanges(isEqual(value, values[key]) ? others : { ...changes, [key]: value });
  };
  const count = Object.keys(changes).length;
  return (
    <form onSubmit={submit}>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="sm">
        {fields.map((field) => (
          <FieldInput
            key={field.key}
            field={field}
            value={field.key in changes ? changes[field.key] : values[field.key]}
            isDisabled={barrier !== undefined}
            onChange={(value) => change(field.key, value)}
          />
        ))}
      </SimpleGrid>
      <Group mt="sm">
        <Button type="submit" size="xs" disabled={barrier !== undefined || count === 0} loading={saving.isPending}>
          Save
        </Button>
        <Text size="sm" role="status">
          {barrier ?? (count > 0 ? `${count} changed, not saved` : "")}
        </Text>
      </Group>
    </form>
  );
}

interface FieldInputProps {
  field: Field;
  value: unknown;
  isDisabled: boolean;
  onChange: (value: unknown) => void;
}

function FieldInput({ field, value, isDisabled, onChange }: FieldInputProps) {
  const { label, kind, about: description, choices = [], isNullable = false } = field;
  const common = { label, description, disabled: isDisabled };
  const empty = isNullable ? null : undefined;
  switch (kind) {
    case "number":
      return (
        <NumberInput
          {...common}
          value={typeof value === "number" ? value : ""}
          min={0}
          onChange={(next) => onChange(next === "" ? empty : Number(next))}
        />
      );
    case "list":
      return (
        <TagsInput
          {...common}
          value={Array.isArray(value) ? (value as string[]) : []}
          onChange={(next) => onChange(next.length === 0 && isNullable ? null : next)}
        />
      );
    case "choice":
      return <Select {...common} data={choices} value={String(value)} onChange={onChange} allowDeselect={false} />;
    case "switch":
      return <Switch {...common} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} mt="lg" />;
    case "text":
      return (
        <TextInput
          {...common}
          value={typeof value === "string" ? value : ""}
          onChange={(event) => onChange(event.currentTarget.value === "" && isNullable ? null : event.currentTarget.value)}
        />
      );
  }
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
