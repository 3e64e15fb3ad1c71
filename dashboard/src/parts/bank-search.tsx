import type { HitView } from "@circadia/client";
import { Anchor, Button, Drawer, Group, Paper, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { noteQuery, searchQuery } from "../server/queries";
import { ForeignText, Name } from "./name";
import { QueryView } from "./query-view";
import { Ago } from "./time";

/** Find episodes and notes, each with the parts of its score. */
export function BankSearch({ bank }: { bank: string }) {
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setAsked(text.trim());
  };
  return (
    <Stack>
      <form onSubmit={submit} role="search">
        <Group align="flex-end">
          <TextInput
            label="Question or words"
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            style={{ flex: "1 1 16rem" }}
            required
          />
          <Button type="submit">Search</Button>
        </Group>
      </form>
      {asked && <Hits bank={bank} asked={asked} />}
    </Stack>
  );
}

function Hits({ bank, asked }: { bank: string; asked: string }) {
  const hits = useQuery(searchQuery(bank, asked));
  const [note, setNote] = useState<string>();
  return (
    <>
      <QueryView query={hits}>
        {(hits) => (
          <Stack gap="xs" role="list" aria-label="Hits">
            {hits.length === 0 && <Text size="sm">Nothing in this bank matches.</Text>}
            {hits.map((hit) => (
              <Hit key={hit.id} hit={hit} onExplain={() => setNote(hit.id)} />
            ))}
          </Stack>
        )}
      </QueryView>
      <Drawer opened={note !== undefined} onClose={() => setNote(undefined)} title="Where this note comes from" position="right" size="lg">
        {note !== undefined && <NoteSources bank={bank} note={note} />}
      </Drawer>
    </>
  );
}

function Hit({ hit, onExplain }: { hit: HitView; onExplain: () => void }) {
  const parts = Object.entries(hit.parts).filter(([, value]) => value !== 0);
  return (
    <Paper withBorder p="xs" role="listitem">
      <ForeignText text={hit.text} />
      <Text size="xs" c="dimmed" component="div">
        {hit.layer === "notes" ? "note" : "episode"} ({hit.kind}), {hit.speaker && <Name text={hit.speaker} />} <Ago at={hit.at} />,
        source: {hit.trust}; score {hit.score.toFixed(3)}: {parts.map(([name, value]) => `${name} ${value.toFixed(3)}`).join(", ")}
        {hit.layer === "notes" && (
          <>
            {" "}
            <Anchor component="button" type="button" size="xs" onClick={onExplain}>
              Show its {hit.evidence.length} sources
            </Anchor>
          </>
        )}
      </Text>
    </Paper>
  );
}

function NoteSources({ bank, note }: { bank: string; note: string }) {
  const query = useQuery(noteQuery(bank, note));
  return (
    <QueryView query={query}>
      {({ text, evidence }) => (
        <Stack>
          <ForeignText text={text} />
          {evidence.map((episode) => (
            <Paper key={episode.id} withBorder p="xs">
              <ForeignText text={episode.text} />
              <Text size="xs" c="dimmed" component="div">
                <Name text={episode.speaker} />, <Ago at={episode.at} />, source: {episode.trust}
              </Text>
            </Paper>
          ))}
        </Stack>
      )}
    </QueryView>
  );
}
