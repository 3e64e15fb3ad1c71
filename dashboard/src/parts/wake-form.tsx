import type { WakeOutcome } from "@circadia/client";
import { Alert, Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { useActBarrier } from "../server/session";
import { GuardrailTrace } from "./guardrail-trace";

/** Ask for a wake with a message, or see first what the guardrails would say. */
export function WakeForm({ reference, onClose }: { reference: string; onClose: () => void }) {
  const client = useQueryClient();
  const barrier = useActBarrier();
  const [message, setMessage] = useState("");
  const asking = useMutation({
    mutationFn: (isDryRun: boolean): Promise<WakeOutcome> =>
      circadia.wakeAgent({
        body: { to: reference, message: message || null, reason: "user_request", ...(isDryRun && { dry_run: true }) },
      }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["wakes"] }),
  });
  return (
    <Modal opened onClose={onClose} title={`Ask for a wake of ${reference}`} centered size="lg">
      <Stack>
        <Textarea
          label="Message"
          description="The agent finds it in its inbox, whatever the guardrails decide"
          value={message}
          onChange={(event) => setMessage(event.currentTarget.value)}
          autosize
          minRows={2}
          data-autofocus
        />
        {barrier && <Text size="sm">{barrier}</Text>}
        <Group justify="flex-end">
          <Button variant="default" onClick={() => asking.mutate(true)} loading={asking.isPending} disabled={barrier !== undefined}>
            Test only
          </Button>
          <Button onClick={() => asking.mutate(false)} loading={asking.isPending} disabled={barrier !== undefined}>
            Wake
          </Button>
        </Group>
        {asking.isError && (
          <Alert color="red" variant="outline" role="alert">
            <Text size="sm">{asking.error.message}</Text>
          </Alert>
        )}
        {asking.isSuccess && (
          <Stack gap="xs" role="status">
            <Text size="sm" fw={600}>
              {asking.variables ? `This wake would be ${asking.data.decision}; nothing was changed.` : asking.data.summary}
            </Text>
            <GuardrailTrace trace={asking.data.trace} />
          </Stack>
        )}
      </Stack>
    </Modal>
  );
}
