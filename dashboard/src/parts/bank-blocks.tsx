import type { BlockView } from "@circadia/client";
import { Button, Drawer, Group, Paper, Stack, Text, Textarea, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { formatCount } from "../server/format";
import { blocksQuery, versionsQuery } from "../server/queries";
import { useActBarrier } from "../server/session";
import { ActButton } from "./act-button";
import { Diff } from "./diff";
import { Empty } from "./empty";
import { ForeignText, Name } from "./name";
import { QueryView } from "./query-view";
import { Ago } from "./time";

/** The blocks of a bank: read, edit, compare the versions, and go back. */
export function BankBlocks({ bank }: { bank: string }) {
  const blocks = useQuery(blocksQuery(bank));
  const [label, setLabel] = useState<string>();
  return (
    <>
      <QueryView query={blocks}>
        {(blocks) => (
          <Stack>
            {blocks.length === 0 && (
              <Empty command={`circadia blocks write ${bank} human "Ann lives in Porto."`}>
                No block yet. Passes write them, agents may, and people can:
              </Empty>
            )}
            {blocks.map((block) => (
              <Block key={block.label} block={block} onHistory={() => setLabel(block.label)} />
            ))}
          </Stack>
        )}
      </QueryView>
      <Drawer opened={label !== undefined} onClose={() => setLabel(undefined)} title={`Versions of ${label ?? ""}`} position="right" size="xl">
        {label !== undefined && <Versions bank={bank} label={label} />}
      </Drawer>
    </>
  );
}

function Block({ block, onHistory }: { block: BlockView; onHistory: () => void }) {
  const client = useQueryClient();
  const barrier = useActBarrier();
  const [draft, setDraft] = useState<string>();
  const path = { bank: block.bank, label: block.label };
  const saving = useMutation({
    mutationFn: (value: string) => circadia.writeBlock({ path, body: { value, expected_version: block.version } }),
    onSuccess: () => {
      setDraft(undefined);
      return client.invalidateQueries({ queryKey: ["blocks"] });
    },
    onError: (error) => notifications.show({ color: "red", title: "Not saved", message: error.message }),
  });
  return (
    <Paper withBorder p="sm">
      <Group justify="space-between" wrap="nowrap">
        <Title order={2} size="h6" className="name">
          <Name text={block.label} />
        </Title>
        <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
          version {block.version}, {formatCount(block.value.length)} of {formatCount(block.limit)} characters
        </Text>
      </Group>
      {draft === undefined ? (
        <ForeignText text={block.value} />
      ) : (
        <Textarea
          aria-label={`Text of ${block.label}`}
          value={draft}
          onChange={(event) => setDraft(event.currentTarget.value)}
          maxLength={block.limit}
          autosize
        />
      )}
      <Group gap="xs" mt="xs">
        {draft === undefined ? (
          <Button size="xs" variant="default" onClick={() => setDraft(block.value)} disabled={barrier !== undefined}>
            Edit
          </Button>
        ) : (
          <>
            <Button size="xs" onClick={() => saving.mutate(draft)} loading={saving.isPending}>
              Save
            </Button>
            <Button size="xs" variant="default" onClick={() => setDraft(undefined)}>
              Cancel
            </Button>
          </>
        )}
        <Button size="xs" variant="default" onClick={onHistory}>
          Versions
        </Button>
        <ActButton
          subject={block.label}
          act={() => circadia.undoBlock({ path, body: { expected_version: block.version } })}
          success={`${block.label} is as before its last change.`}
          warning="The version before becomes the present one. The history keeps both."
          barrier={block.version > 1 ? undefined : "It has one version only."}
        >
          Undo
        </ActButton>
      </Group>
    </Paper>
  );
}

function Versions({ bank, label }: { bank: string; label: string }) {
  const versions = useQuery(versionsQuery(bank, label));
  return (
    <QueryView query={versions}>
      {(versions) => (
        <Stack>
          {versions.toReversed().map((version) => (
            <div key={version.version}>
              <Text size="sm" component="div">
                Version {version.version} by <Name text={version.by} />, <Ago at={version.at} />
                {version.why && `: ${version.why}`}
              </Text>
              <Diff
                before={versions.find((other) => other.version === version.parent)?.value ?? ""}
                after={version.deleted ? "" : version.value}
              />
            </div>
          ))}
        </Stack>
      )}
    </QueryView>
  );
}
