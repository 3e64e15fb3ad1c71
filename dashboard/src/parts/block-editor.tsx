import type { BlockView } from "@circadia/client";
import { Group, Modal, NumberInput, Switch, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { ActForm } from "./act-form";

const NEW = { label: "", version: 0, value: "", description: "", limit: 5000, pinned: true, read_only: false };

interface BlockEditorProps {
  bank: string;
  /** The version to change; a new block without it. */
  block?: BlockView;
  onClose: () => void;
  onSaved?: (block: BlockView) => void;
}

/** Write a version of a block; if somebody else has written meanwhile, nothing is changed and the text stays here. */
export function BlockEditor({ bank, block, onClose, onSaved }: BlockEditorProps) {
  const client = useQueryClient();
  const [{ version }] = useState(block ?? NEW);
  const [draft, setDraft] = useState({ ...(block ?? NEW), why: "" });
  const change = (part: Partial<typeof draft>) => setDraft((before) => ({ ...before, ...part }));
  const saving = useMutation({
    mutationFn: () => {
      const { label, value, description, limit, pinned, read_only, why } = draft;
      const body = { value, description, limit, pinned, read_only, why, expected_version: version };
      return circadia.writeBlock({ path: { bank, label }, body });
    },
    onSuccess: async (saved) => {
      await client.invalidateQueries({ queryKey: ["blocks"] });
      onSaved?.(saved);
      onClose();
    },
  });
  const isTyped = draft.value !== (block ?? NEW).value;
  return (
    <Modal
      opened
      onClose={onClose}
      closeOnClickOutside={!isTyped}
      closeOnEscape={!isTyped}
      title={block ? `Edit ${block.label}` : "Add a block"}
      centered
      size="lg"
    >
      <ActForm mutation={saving} submitLabel="Save">
        {!block && (
          <TextInput
            label="Label"
            description="Agents and passes know the block by it, such as human"
            value={draft.label}
            onChange={(event) => change({ label: event.currentTarget.value })}
            maxLength={100}
            required
            data-autofocus
          />
        )}
        <Textarea
          label="Text"
          description={`${draft.value.length} of ${draft.limit} characters`}
          value={draft.value}
          onChange={(event) => change({ value: event.currentTarget.value })}
          autosize
          minRows={4}
          maxRows={16}
          data-autofocus={block ? true : undefined}
        />
        <TextInput
          label="Description"
          description="Tells whoever writes the block what it is for"
          value={draft.description}
          onChange={(event) => change({ description: event.currentTarget.value })}
        />
        <Group align="flex-end">
          <NumberInput
            label="Longest text"
            value={draft.limit}
            min={1}
            max={100_000}
            onChange={(limit) => change({ limit: Number(limit) })}
          />
          <Switch label="In each prompt" checked={draft.pinned} onChange={(event) => change({ pinned: event.currentTarget.checked })} />
          <Switch
            label="Only people may write it"
            checked={draft.read_only}
            onChange={(event) => change({ read_only: event.currentTarget.checked })}
          />
        </Group>
        <TextInput label="Why" value={draft.why} onChange={(event) => change({ why: event.currentTarget.value })} />
      </ActForm>
    </Modal>
  );
}
