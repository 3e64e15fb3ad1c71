import type { SendOutcome } from "@circadia/client";
import { Alert, Button, Group, Modal, Select, Stack, Text, Textarea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { circadia } from "../server/circadia";
import { useActBarrier } from "../server/session";

const PRIORITIES = ["low", "normal", "high", "urgent"] as const;
type Priority = (typeof PRIORITIES)[number];

/** A button with a form that puts a message into an agent's inbox. */
export function SendMessage({ to }: { to: string }) {
  const client = useQueryClient();
  const barrier = useActBarrier();
  const [isOpen, form] = useDisclosure();
  const [content, setContent] = useState("");
  const [priority, setPriority] = useState<Priority>("normal");
  const sending = useMutation({
    mutationFn: (): Promise<SendOutcome> => circadia.sendDirect({ body: { to, content, priority } }),
    onSuccess: (outcome) => {
      notifications.show({ color: "teal", message: outcome.summary });
      setContent("");
      form.close();
      return client.invalidateQueries({ queryKey: ["inbox"] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (barrier === undefined) sending.mutate();
  };
  return (
    <>
      <Button size="xs" variant="default" onClick={form.open}>
        Send a message
      </Button>
      <Modal opened={isOpen} onClose={form.close} title={`Message to ${to}`} centered>
        <form onSubmit={submit}>
          <Stack>
            {barrier && <Text size="sm">{barrier}</Text>}
            <Textarea
              label="Message"
              value={content}
              onChange={(event) => setContent(event.currentTarget.value)}
              autosize
              minRows={3}
              required
              data-autofocus
            />
            <Select
              label="Priority"
              description="High and urgent ask for a wake"
              data={PRIORITIES}
              value={priority}
              onChange={(value) => setPriority((value as Priority | null) ?? "normal")}
              allowDeselect={false}
            />
            {sending.isError && (
              <Alert color="red" variant="outline" role="alert">
                <Text size="sm">{sending.error.message}</Text>
              </Alert>
            )}
            <Group justify="flex-end">
              <Button type="submit" loading={sending.isPending} disabled={barrier !== undefined}>
                Send
              </Button>
            </Group>
          </Stack>
        </form>
      </Modal>
    </>
  );
}
