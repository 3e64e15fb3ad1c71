import { Alert, Button, Group, Stack, Text } from "@mantine/core";

import { useActBarrier } from "../server/session";
import { type DraftState, isPreconditionFailed } from "../server/use-draft";
import { VersionComparison } from "./version-comparison";

interface DraftBarProps {
  draft: DraftState;
  labelOf: (name: string) => string;
  /** The value of a setting in words. */
  describe?: (value: unknown) => string;
  /** `submit` in a form, whose Enter key saves too. */
  submitType?: "submit" | "button";
  /** What is wrong with the draft, as far as the server has checked it. */
  problems?: readonly string[];
}

/** What is changed and not saved, what others have changed meanwhile, and the button that saves. */
export function DraftBar({ draft, labelOf, describe, submitType = "button", problems = [] }: DraftBarProps) {
  const barrier = useActBarrier();
  const count = Object.keys(draft.changes).length;
  const isBehind = draft.differences.length > 0;
  const { error, isPending } = draft.saving;
  const shown = error === null ? problems : [error.message];
  return (
    <Stack gap="xs" mt="sm" className={count > 0 ? "draft-bar" : undefined}>
      {isBehind && <VersionComparison draft={draft} labelOf={labelOf} {...(describe && { describe })} />}
      {shown.length > 0 && !(isBehind && isPreconditionFailed(error)) && (
        <Alert color="red" variant="outline" role={error === null ? "status" : "alert"} title={error === null ? undefined : "Not saved"}>
          {shown.map((message) => (
            <Text key={message} size="sm" className="foreign-text">
              {message}
            </Text>
          ))}
        </Alert>
      )}
      <Group gap="xs">
        <Button
          type={submitType}
          size="xs"
          disabled={barrier !== undefined || count === 0 || isBehind}
          loading={isPending}
          onClick={submitType === "button" ? draft.save : undefined}
        >
          Save
        </Button>
        {count > 0 && (
          <Button size="xs" variant="default" onClick={draft.discard} disabled={isPending}>
            Discard
          </Button>
        )}
        <Text size="sm" role="status">
          {barrier ?? (isBehind ? "Not saved: choose above first" : count > 0 ? `${count} changed, not saved` : "")}
        </Text>
      </Group>
    </Stack>
  );
}
