import { CircadiaError } from "@circadia/client";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useContext, useState } from "react";

import { changeDraft, compareVersions, type Difference, type Draft, dropChange, rebaseDraft, type Values, valuesOf, type Version } from "./draft";
import { PersonContext } from "./session";

interface DraftOptions {
  /** What the draft is of; a draft outlives the part of the page in which it was begun. */
  name: string;
  server: Version;
  /** Write the changes, unless the settings have another tag by now. */
  save: (draft: Draft, etag: string) => Promise<unknown>;
  success: string;
}

export interface DraftState {
  /** Null if nothing is changed. */
  draft: Draft | null;
  values: Values;
  changes: Values;
  /** What others have changed meanwhile, beside one's own changes; empty if nothing. */
  differences: Difference[];
  saving: { isPending: boolean; error: Error | null };
  change: (changes: Values) => void;
  /** Take over what others have changed, and keep one's own changes. */
  rebase: () => void;
  takeTheirs: (name: string) => void;
  discard: () => void;
  save: () => void;
}

/** Settings that a person edits; a save does not overwrite what somebody else has changed meanwhile. */
export function useDraft({ name, server, save, success }: DraftOptions): DraftState {
  const client = useQueryClient();
  const person = useContext(PersonContext);
  const key = ["draft", person.name, name];
  const [draft, setDraft] = useState(() => client.getQueryData<Draft | null>(key) ?? null);
  const saving = useMutation({
    mutationFn: async () => {
      if (draft === null) return;
      const isCurrent = compareVersions(draft, server).length === 0;
      await save(draft, isCurrent ? server.etag : draft.base.etag);
    },
    onSuccess: async () => {
      await client.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "me" });
      put(null); // not before the new version is here: the next change begins with it
      notifications.show({ color: "teal", message: success });
    },
    onError: (error) => (isPreconditionFailed(error) ? client.invalidateQueries() : undefined),
  });
  const put = (next: Draft | null) => {
    setDraft(next);
    client.setQueryData(key, next);
  };
  const putAnew = (next: Draft | null) => {
    if (saving.isPending) return;
    saving.reset();
    put(next);
  };
  return {
    draft,
    values: draft === null ? server.values : valuesOf(draft),
    changes: draft?.changes ?? {},
    differences: draft === null || saving.isPending ? [] : compareVersions(draft, server),
    saving,
    change: (changes) => putAnew(changeDraft(draft, server, changes)),
    rebase: () => putAnew(draft && rebaseDraft(draft, server)),
    takeTheirs: (name) => putAnew(draft && dropChange(draft, name)),
    discard: () => putAnew(null),
    save: () => saving.mutate(),
  };
}

/** Whether a change was refused because the settings have changed since they were read. */
export function isPreconditionFailed(error: Error | null): boolean {
  return error instanceof CircadiaError && error.status === 412;
}
