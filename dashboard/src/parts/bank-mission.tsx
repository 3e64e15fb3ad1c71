import type { BankView } from "@circadia/client";
import { Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { formatCount } from "../server/format";
import { ActForm } from "./act-form";
import { ForeignText } from "./name";

const MOST_CHARACTERS = 500;

/** What a bank is for, what passes shall remember in it, and what was not kept, by reason. */
export function BankMission({ bank }: { bank: BankView }) {
  const [isEdited, setEdited] = useState(false);
  const { mission } = bank.policy;
  const skipped = Object.entries(bank.skipped).map(([reason, count]) => `${formatCount(count)} ${reason.replaceAll("_", " ")}`);
  return (
    <Stack gap={4}>
      {bank.description && <ForeignText text={bank.description} />}
      <Group gap="xs" wrap="nowrap" align="baseline" role="group" aria-label="The mission">
        {mission ? <ForeignText text={mission} /> : <Text size="sm">No mission says what passes shall remember.</Text>}
        <Button size="compact-xs" variant="default" onClick={() => setEdited(true)} aria-label="Change the mission">
          Change
        </Button>
      </Group>
      {skipped.length > 0 && <Text size="sm">Turns not kept: {skipped.join(", ")}.</Text>}
      {isEdited && <MissionEditor bank={bank} onClose={() => setEdited(false)} />}
    </Stack>
  );
}

function MissionEditor({ bank, onClose }: { bank: BankView; onClose: () => void }) {
  const client = useQueryClient();
  const [mission, setMission] = useState(bank.policy.mission ?? "");
  const saving = useMutation({
    mutationFn: () => circadia.changeBank({ path: { bank: bank.name }, body: { policy: { mission } } }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["banks"] });
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`Mission of ${bank.name}`} centered size="lg">
      <ActForm mutation={saving} submitLabel="Save">
        <Textarea
          label="Mission"
          description="Two sentences that every pass and every judge reads, such as: A law firm. Remember deadlines, never health."
          value={mission}
          onChange={(event) => setMission(event.currentTarget.value)}
          maxLength={MOST_CHARACTERS}
          autosize
          minRows={2}
          maxRows={6}
          data-autofocus
        />
      </ActForm>
    </Modal>
  );
}
