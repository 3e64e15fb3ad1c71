import type { ChangeView, PassView } from "@circadia/client";
import { Button, Checkbox, Group, Stack, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { isOpen } from "../server/describe-pass";
import { formatCount, formatNumberOf } from "../server/format";
import { changeTextsQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { Change } from "./change";

const PAGE = 100;

/** The changes of a pass as a diff; those that wait are accepted or refused, one or all, and refused ones are folded away. */
export function ChangeList({ pass, changes }: { pass: PassView; changes: readonly ChangeView[] }) {
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const selected = changes.filter(({ state, number }) => state === "staged" && chosen.has(number)).map(({ number }) => number);
  const body = selected.length > 0 ? { numbers: selected } : undefined;
  const toggle = (number: number) => setChosen(new Set(chosen.has(number) ? [...chosen].filter((each) => each !== number) : [...chosen, number]));
  const [isUnfolded, setUnfolded] = useState(false);
  const refused = changes.filter(({ state }) => state === "refused");
  const kept = changes.filter(({ state }) => state !== "refused");
  const waiting = changes.filter(({ state }) => state === "staged").length;
  const barrier = pass.dry_run ? "A dry run publishes nothing. Ask for a pass with review instead." : undefined;
  const undoBarrier = isOpen(pass) ? "The pass still runs." : undefined;
  const path = { pass: pass.id };
  if (changes.length === 0) return <Text size="sm">The pass has changed nothing.</Text>;
  return (
    <Stack>
      <Group justify="space-between">
        <Text size="sm" role="status">
          {formatNumberOf(changes.length, "change")}
          {waiting > 0 && `, ${formatCount(waiting)} ${waiting === 1 ? "waits" : "wait"} for a person`}
        </Text>
        {waiting > 0 && (
          <Group gap="xs">
            <ActButton
              act={() => circadia.acceptPass({ path, ...(body && { body }) })}
              success="The changes are published."
              warning={`Publishes ${formatNumberOf(selected.length || waiting, "change")}. You can undo it.`}
              barrier={barrier}
            >
              {body ? "Accept selected" : "Accept all"}
            </ActButton>
            <ActButton
              act={() => circadia.refusePass({ path, ...(body && { body }) })}
              success="The changes are refused."
              warning={`Refuses ${formatNumberOf(selected.length || waiting, "change")} for good. The record keeps what was refused.`}
              barrier={barrier}
            >
              {body ? "Refuse selected" : "Refuse all"}
            </ActButton>
          </Group>
        )}
      </Group>
      {kept.length > 0 && <Changes label="Changes" pass={pass} changes={kept} barrier={barrier} undoBarrier={undoBarrier} {...(waiting > 1 && { chosen, onToggle: toggle })} />}
      {refused.length > 0 && (
        <Button variant="default" size="xs" aria-expanded={isUnfolded} onClick={() => setUnfolded(!isUnfolded)} style={{ alignSelf: "flex-start" }}>
          {isUnfolded ? "Hide" : "Show"} {formatNumberOf(refused.length, "refused change")}
        </Button>
      )}
      {isUnfolded && <Changes label="Refused changes" pass={pass} changes={refused} barrier={barrier} undoBarrier={undoBarrier} />}
    </Stack>
  );
}

interface ChangesProps {
  label: string;
  pass: PassView;
  changes: readonly ChangeView[];
  barrier: string | undefined;
  undoBarrier: string | undefined;
  /** Numbers of the selected changes, where several wait. */
  chosen?: ReadonlySet<number>;
  onToggle?: (number: number) => void;
}

function Changes({ label, pass, changes, barrier, undoBarrier, chosen, onToggle }: ChangesProps) {
  const [shown, setShown] = useState(PAGE);
  const page = changes.slice(0, shown);
  const queries = new Map(page.map(({ number }) => changeTextsQuery(pass.id, number)).map((each) => [each.queryKey.join(), each]));
  const texts = useQueries({ queries: [...queries.values()] }).flatMap(({ data }) => [...(data ?? [])]);
  const textsOf = new Map(texts);
  return (
    <>
      <Stack component="ol" gap="xs" m={0} p={0} style={{ listStyle: "none" }} aria-label={label}>
        {page.map((change) => (
          <Change
            key={change.number}
            bank={pass.bank}
            change={change}
            texts={textsOf.get(change.number)}
            barrier={barrier}
            undoBarrier={undoBarrier}
            checkbox={
              change.state === "staged" &&
              chosen &&
              onToggle && (
                <Checkbox size="xs" aria-label={`Select change ${change.number}`} checked={chosen.has(change.number)} onChange={() => onToggle(change.number)} />
              )
            }
          />
        ))}
      </Stack>
      {changes.length > shown && (
        <Button variant="default" size="xs" onClick={() => setShown(shown + PAGE)}>
          Show more
        </Button>
      )}
    </>
  );
}
