import type { ChangeView, PassView } from "@circadia/client";
import { Button, Group, Stack, Text } from "@mantine/core";
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
              act={() => circadia.acceptPass({ path })}
              success="The changes are published."
              warning={`Publishes ${formatNumberOf(waiting, "change")}. You can undo it.`}
              barrier={barrier}
            >
              Accept all
            </ActButton>
            <ActButton
              act={() => circadia.refusePass({ path })}
              success="The changes are refused."
              warning={`Refuses ${formatNumberOf(waiting, "change")} for good. The record keeps what was refused.`}
              barrier={barrier}
            >
              Refuse all
            </ActButton>
          </Group>
        )}
      </Group>
      {kept.length > 0 && <Changes label="Changes" pass={pass} changes={kept} barrier={barrier} undoBarrier={undoBarrier} />}
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
}

function Changes({ label, pass, changes, barrier, undoBarrier }: ChangesProps) {
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
