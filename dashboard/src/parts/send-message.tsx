import type { SendOutcome } from "@circadia/client";
import { Button, Modal, Select, Textarea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { ActForm } from "./act-form";

const PRIORITIES = ["low", "normal", "high", "urgent"] as const;
type Priority = (typeof PRIORITIES)[number];

/** A button with a form that puts a message into an agent's inbox. */
export function SendMessage({ to }: { to: string }) {
  const client = useQueryClient();
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
  return (
    <>
      <Button size="xs" variant="default" onClick={form.open}>
        Send a message
      </Button>
      <Modal opened={isOpen} onClose={form.close} title={`Message to ${to}`} centered>
        <ActForm mutation={sending} submitLabel="Send">
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
        </ActForm>
      </Modal>
    </>
  );
}
