import type { ForgetBody, ForgottenView } from "@circadia/client";
import { Group, Paper, Stack, Text } from "@mantine/core";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { ActButton } from "./act-button";

interface ForgetPanelProps {
  bank: string;
  selection: ForgetBody;
  /** Why nothing can be forgotten with this selection. */
  barrier?: string | undefined;
  onForgotten?: () => void;
}

/** Counts what would be deleted, and only then offers to delete it. */
export function ForgetPanel({ bank, selection, barrier, onForgotten }: ForgetPanelProps) {
  const [preview, setPreview] = useState<ForgottenView>();
  const path = { bank };
  const forget = async () => {
    const forgotten = await circadia.forgetEpisodes({ path, body: selection });
    setPreview(undefined);
    onForgotten?.();
    return forgotten;
  };
  return (
    <Paper withBorder p="sm" role="group" aria-label="Forget">
      <Stack gap="xs">
        <Text size="sm" role="status">
          {preview ? `This would delete ${describe(preview)}.` : "A preview counts what would be deleted, and deletes nothing."}
        </Text>
        <Group>
          <ActButton
            act={async () => setPreview(await circadia.forgetEpisodes({ path, body: { ...selection, dry_run: true } }))}
            success="Counted; nothing is deleted."
            barrier={barrier}
          >
            Preview
          </ActButton>
          {preview && (
            <ActButton
              color="red"
              act={forget}
              success={(forgotten) => `${describe(forgotten)} deleted.`}
              warning={`${describe(preview)} of ${bank} will be deleted, with their vectors, on all servers. Nobody can undo this.`}
              barrier={preview.episodes + preview.notes === 0 ? "Nothing matches." : undefined}
            >
              Forget
            </ActButton>
          )}
        </Group>
      </Stack>
    </Paper>
  );
}

function describe({ episodes, notes, versions }: ForgottenView): string {
  return `${formatNumberOf(episodes, "episode")}, ${formatNumberOf(notes, "note")} and parts of ${formatNumberOf(versions, "version")} of blocks`;
}
