import { TextInput } from "@mantine/core";

import { useTypedPart } from "../server/view";

const TIMES = ["since", "until", "as_of"];

/** A filter that a person types; the address keeps it. */
export function TextFilter({ name, label, placeholder }: { name: string; label: string; placeholder?: string }) {
  const [typed, setTyped] = useTypedPart(name);
  const example = placeholder ?? (TIMES.includes(name) ? "2026-11-30T08:00" : undefined);
  return (
    <TextInput
      label={label}
      value={typed}
      onChange={(event) => setTyped(event.currentTarget.value)}
      style={{ flex: "1 1 8rem", maxWidth: "14rem" }}
      {...(example && { placeholder: example })}
    />
  );
}
