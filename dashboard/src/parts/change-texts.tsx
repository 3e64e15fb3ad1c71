import type { ChangeSourceView } from "@circadia/client";
import { Stack, Text } from "@mantine/core";

import { ForeignText, Name } from "./name";
import { Ago } from "./time";

const WORDS = { target: "Concerns", source: "Rests on" } as const;

/** What a change concerns and rests on, in the words of the notes and episodes. */
export function ChangeTexts({ label, texts }: { label: string; texts: readonly ChangeSourceView[] }) {
  if (texts.length === 0) return null;
  return (
    <Stack gap={6} role="group" aria-label={label} style={{ minWidth: 0 }}>
      {texts.map(({ id, role, text, speaker, trust, at }) => (
        <blockquote key={id} className="quotation">
          <Text size="xs" c="dimmed" component="div">
            {WORDS[role]}: {speaker === null ? "a note" : <Name text={speaker} />}, {trust}, <Ago at={at} />
          </Text>
          <ForeignText text={text} />
        </blockquote>
      ))}
    </Stack>
  );
}
