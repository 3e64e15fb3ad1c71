import { Text } from "@mantine/core";

import type { Problem } from "../server/schedule-draft";
import type { DraftState } from "../server/use-draft";

/** Whether an entry of a draft is new, changed, or wrong. */
export function EntryState({ name, draft, problems }: { name: string; draft: DraftState; problems: readonly Problem[] }) {
  const isWrong = problems.some(({ entry }) => entry === name);
  if (!isWrong && !(name in draft.changes)) return null;
  const word = isWrong ? "has an error" : draft.draft !== null && name in draft.draft.base.values ? "changed" : "new";
  return (
    <Text size="xs" span c={isWrong ? "var(--tone-bad)" : "var(--tone-held)"} ml={4}>
      {word}
    </Text>
  );
}
