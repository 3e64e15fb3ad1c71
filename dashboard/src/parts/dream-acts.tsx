import type { DreamView } from "@circadia/client";
import { Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { circadia } from "../server/circadia";
import { folderQuery } from "../server/queries";
import { ActButton } from "./act-button";

/** A person's decision on what a dream over a folder proposes or has written. */
export function DreamActs({ dream }: { dream: DreamView }) {
  const folder = useQuery(folderQuery(dream.inputs[0]!.name));
  const path = { dream: dream.id };
  if (folder.data === undefined) return null;
  const subject = `the dream over ${dream.inputs[0]!.name}`;
  // What is left after an answer by file is a further entry, with a number behind the first one's id.
  if (folder.data.waiting === dream.entry || folder.data.waiting?.startsWith(`${dream.entry}-`)) {
    return (
      <Group gap="xs">
        <ActButton subject={subject} act={() => circadia.acceptDream({ path })} success="The changes are written.">
          Accept
        </ActButton>
        <ActButton
          subject={subject}
          act={() => circadia.refuseDream({ path })}
          success="The changes are dropped."
          warning="The changes are dropped, and no later dream proposes the same."
        >
          Refuse
        </ActButton>
      </Group>
    );
  }
  const isUndone = dream.reviews.at(-1)?.act === "undone" || folder.data.history.some(({ undoes }) => undoes === dream.entry);
  const entry = folder.data.history.find(({ id }) => id === dream.entry);
  return (
    <ActButton
      subject={subject}
      act={() => circadia.undoDream({ path })}
      success="What the dream had replaced is restored."
      warning="Restores what the dream has replaced. Later changes of other lines stay."
      barrier={isUndone ? "It is undone already." : entry === undefined || entry.published.length === 0 ? "The dream has written nothing." : undefined}
    >
      Undo
    </ActButton>
  );
}
