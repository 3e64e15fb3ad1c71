import type { ForgetBody } from "@circadia/client";
import { SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";

import { ForgetPanel } from "./forget-panel";

const FIELDS = [
  { key: "speaker", label: "Speaker", about: "Whatever this speaker said" },
  { key: "conversation", label: "Conversation", about: "All of this conversation" },
  { key: "since", label: "Since", about: "A date or time, such as 2026-01-31" },
  { key: "until", label: "Until", about: "Before this date or time" },
] as const;

type Texts = Record<(typeof FIELDS)[number]["key"], string>;

/** Choose what to delete for good. */
export function ForgetForm({ bank }: { bank: string }) {
  const [texts, setTexts] = useState<Texts>({ speaker: "", conversation: "", since: "", until: "" });
  const filled = Object.entries(texts).flatMap(([key, text]) => (text.trim() ? [[key, text.trim()]] : []));
  const selection: ForgetBody = Object.fromEntries(filled);
  return (
    <Stack>
      <Text size="sm">
        Episodes go with everything derived from them: vectors, notes, and their parts of blocks in every version. They
        must meet all that you fill in.
      </Text>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        {FIELDS.map(({ key, label, about }) => (
          <TextInput
            key={key}
            label={label}
            description={about}
            value={texts[key]}
            onChange={({ currentTarget: { value } }) => setTexts((others) => ({ ...others, [key]: value }))}
          />
        ))}
      </SimpleGrid>
      <ForgetPanel
        key={JSON.stringify(selection)}
        bank={bank}
        selection={selection}
        barrier={filled.length === 0 ? "Fill in at least one field." : undefined}
      />
    </Stack>
  );
}
