import type { NoteDetail } from "@circadia/client";
import { Anchor, Drawer, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { noteQuery } from "../server/queries";
import { Facts } from "./facts";
import { ForgetPanel } from "./forget-panel";
import { ForeignText, Name } from "./name";
import { QueryView } from "./query-view";
import { DateTime } from "./time";

/** A note with the episodes that it rests on, and what passes did to it. */
export function NoteDrawer({ bank, note, onClose }: { bank: string; note: string; onClose: () => void }) {
  const details = useQuery(noteQuery(bank, note));
  return (
    <Drawer opened onClose={onClose} title="The note and its evidence" position="right" size="lg">
      <QueryView query={details}>{(note) => <Note note={note} onForgotten={onClose} />}</QueryView>
    </Drawer>
  );
}

function Note({ note, onForgotten }: { note: NoteDetail; onForgotten: () => void }) {
  return (
    <Stack>
      <ForeignText text={note.text} />
      <Facts
        label="About the note"
        facts={{
          Kind: note.kind,
          Trust: note.trust,
          When: <DateTime at={note.at} />,
          Pass: note.pass === null ? "none" : <PassLink pass={note.pass} />,
          State: note.retired_at === null ? "in use" : <>retired, <DateTime at={note.retired_at} /></>,
          Id: <Name text={note.id} mono />,
        }}
      />
      <Title order={3} size="h6">
        Evidence
      </Title>
      <Stack component="ul" gap="xs" m={0} p={0} style={{ listStyle: "none" }} aria-label="Evidence">
        {note.evidence.map((episode) => (
          <Paper component="li" key={episode.id} withBorder p="xs">
            <ForeignText text={episode.text} />
            <Text size="xs">
              <Name text={episode.speaker} />, <DateTime at={episode.at} />, trust: {episode.trust}
            </Text>
          </Paper>
        ))}
      </Stack>
      {note.changes.length > 0 && (
        <>
          <Title order={3} size="h6">
            Changes
          </Title>
          {note.changes.map((change) => (
            <Text size="sm" key={`${change.pass} ${change.number}`}>
              <DateTime at={change.at} />: {change.kind.replaceAll("_", " ")}, {change.state}, by <PassLink pass={change.pass} />
            </Text>
          ))}
        </>
      )}
      <ForgetPanel bank={note.bank} selection={{ ids: [note.id] }} onForgotten={onForgotten} />
    </Stack>
  );
}

function PassLink({ pass }: { pass: string }) {
  return (
    <Anchor component={Link} href={`/passes/${pass}`} size="sm" underline="always">
      <Name text={pass} mono />
    </Anchor>
  );
}
