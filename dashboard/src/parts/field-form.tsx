import { CircadiaError } from "@circadia/client";
import { NumberInput, Select, SimpleGrid, Switch, TagsInput, Textarea, TextInput } from "@mantine/core";
import type { FormEvent } from "react";

import type { Values, Version } from "../server/draft";
import { useActBarrier } from "../server/session";
import { useDraft } from "../server/use-draft";
import { DraftBar } from "./draft-bar";

export interface Field {
  key: string;
  label: string;
  kind: "number" | "text" | "lines" | "list" | "choice" | "switch";
  about?: string;
  choices?: string[];
  /** Whether an empty input means null. */
  isNullable?: boolean;
}

interface FieldFormProps {
  /** What the settings are of. */
  name: string;
  fields: readonly Field[];
  server: Version;
  /** Write the changed settings, unless the server has another tag by now. */
  save: (changes: Values, etag: string) => Promise<unknown>;
  success: string;
  /** Where the server's errors name a setting: what comes before its name. */
  errorPath: string;
}

/** A form for settings; it sends those that were changed here, and no others. */
export function FieldForm({ name, fields, server, save, success, errorPath }: FieldFormProps) {
  const barrier = useActBarrier();
  const draft = useDraft({ name, server, success, save: ({ changes }, etag) => save(changes, etag) });
  const problems = fieldProblems(draft.saving.error, errorPath);
  const labels = new Map(fields.map((field) => [field.key, field.label]));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (barrier === undefined) draft.save();
  };
  return (
    <form onSubmit={submit}>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="sm">
        {fields.map((field) => (
          <FieldInput
            key={field.key}
            field={field}
            value={draft.values[field.key]}
            error={problems.get(field.key)}
            isDisabled={barrier !== undefined}
            onChange={(value) => draft.change({ [field.key]: value })}
          />
        ))}
      </SimpleGrid>
      <DraftBar draft={draft} submitType="submit" labelOf={(name) => labels.get(name) ?? name} />
    </form>
  );
}

/** Return the server's messages by the name of the setting. */
function fieldProblems(error: Error | null, path: string): Map<string, string> {
  const errors = error instanceof CircadiaError ? (error.problem?.errors ?? []) : [];
  return new Map(errors.filter((each) => each.path.startsWith(path)).map((each) => [each.path.slice(path.length).split(".")[0]!, each.message]));
}

interface FieldInputProps {
  field: Field;
  value: unknown;
  error?: string | undefined;
  isDisabled: boolean;
  onChange: (value: unknown) => void;
}

export function FieldInput({ field, value, error, isDisabled, onChange }: FieldInputProps) {
  const { label, kind, about: description, choices = [], isNullable = false } = field;
  const common = { label, description, error, disabled: isDisabled };
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
    case "lines":
      return (
        <Textarea {...common} value={typeof value === "string" ? value : ""} onChange={(event) => onChange(event.currentTarget.value)} autosize maxRows={10} />
      );
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
