import type { ChangeSourceView, ChangeView } from "@circadia/client";
import { Anchor, Group, Paper, SimpleGrid, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { circadia } from "../server/circadia";
import { ActButton } from "./act-button";
import { ChangeTexts } from "./change-texts";
import { ForeignText, Name } from "./name";
import { TextDiff } from "./text-diff";

const WORDS: Record<ChangeView["kind"], string> = {
  add_note: "Add the note", retire_note: "Retire the note", demote_episode: "Demote the episode", write_block: "Write the block",
  flag: "Report the contradiction",
}; // prettier-ignore

interface ChangeProps {
  bank: string;
  change: ChangeView;
  /** What it concerns and rests on. */
  texts?: readonly ChangeSourceView[] | undefined;
  /** Why it cannot be accepted or refused. */
  barrier: string | undefined;
  /** Why it cannot be undone. */
  undoBarrier: string | undefined;
  /** Selects it, to act on several at once. */
  checkbox?: ReactNode;
}

/** One change: before and after, why, and whether it is published. */
export function Change({ bank, change, texts = [], barrier, undoBarrier, checkbox }: ChangeProps) {
  const { number, kind, target, state, operation, why } = change;
  return (
    <Paper component="li" withBorder p="sm">
      <Group justify="space-between" gap="xs">
        <Group gap="xs" style={{ minWidth: 0 }}>
          {checkbox}
          <Text size="sm" fw={600}>
            {number}. {WORDS[kind]}
          </Text>
          <Target bank={bank} kind={kind} target={target} />
          <Text size="sm">
            {operation}, {state === "staged" ? "waits for a person" : state}
          </Text>
        </Group>
        {state === "staged" && <ChangeActs change={change} barrier={barrier} />}
        {state === "published" && <UndoChange change={change} barrier={undoBarrier} />}
      </Group>
      <SimpleGrid cols={texts.length > 0 ? { base: 1, md: 2 } : 1} spacing="md" mt={4}>
        <div style={{ minWidth: 0 }}>
          <Effect change={change} />
          {why && <ForeignText text={why} />}
        </div>
        <ChangeTexts label={`Texts of change ${number}`} texts={texts} />
      </SimpleGrid>
    </Paper>
  );
}

function Target({ bank, kind, target }: { bank: string; kind: ChangeView["kind"]; target: string }) {
  const place = `/banks/${encodeURIComponent(bank)}`;
  if (kind === "write_block") return <Place href={`${place}?tab=blocks&block=${encodeURIComponent(target)}`} text={target} />;
  if (kind === "retire_note" || kind === "add_note") return <Place href={`${place}?note=${encodeURIComponent(target)}`} text={target} />;
  return <Name text={target} mono />;
}

function Place({ href, text }: { href: string; text: string }) {
  return (
    <Anchor component={Link} href={href} size="sm" className="name">
      <Name text={text} mono />
    </Anchor>
  );
}

function Effect({ change: { number, kind, before, after } }: { change: ChangeView }) {
  if (kind === "demote_episode") {
    return (
      <Text size="sm">
        Counts × {text(after, "weight")} in searches, because of <Name text={text(after, "evidence")} mono />
      </Text>
    );
  }
  const key = kind === "write_block" ? "value" : "text";
  const isRetired = kind === "retire_note";
  return <TextDiff label={`Change ${number}`} before={text(before, key)} after={isRetired ? "" : text(after, key)} />;
}

function ChangeActs({ change, barrier }: Pick<ChangeProps, "change" | "barrier">) {
  const request = { path: { pass: change.pass }, body: { numbers: [change.number] } };
  return (
    <Group gap={6} wrap="nowrap">
      <ActButton
        size="compact-xs"
        subject={`change ${change.number}`}
        act={() => circadia.acceptPass(request)}
        success={`Change ${change.number} is published.`}
        barrier={barrier}
      >
        Accept
      </ActButton>
      <ActButton
        size="compact-xs"
        subject={`change ${change.number}`}
        act={() => circadia.refusePass(request)}
        success={`Change ${change.number} is refused.`}
        warning="It stays on record and cannot be accepted any more."
        barrier={barrier}
      >
        Refuse
      </ActButton>
    </Group>
  );
}

function UndoChange({ change, barrier }: Pick<ChangeProps, "change" | "barrier">) {
  return (
    <ActButton
      size="compact-xs"
      subject={`change ${change.number}`}
      act={() => circadia.undoPass({ path: { pass: change.pass }, body: { numbers: [change.number] } })}
      success={`Change ${change.number} is undone.`}
      warning="The other changes of the pass stay. A block that others have changed since keeps their lines."
      barrier={barrier}
    >
      Undo
    </ActButton>
  );
}

function text(part: ChangeView["before"], key: string): string {
  const value = part?.[key];
  return value === undefined || value === null ? "" : String(value);
}
