import { Alert, Button, Checkbox, Group, Modal, Select, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { circadia } from "../server/circadia";
import { sessionsQuery } from "../server/queries";
import { useActBarrier } from "../server/session";
import { NewToken } from "./new-token";

/** Create an agent; its token is shown once. */
export function AddAgent({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const barrier = useActBarrier();
  const sessions = useQuery(sessionsQuery);
  const [name, setName] = useState("");
  const [session, setSession] = useState("default");
  const [description, setDescription] = useState("");
  const [startsAsleep, setStartsAsleep] = useState(false);
  const creating = useMutation({
    mutationFn: () =>
      circadia.createAgent({
        path: { session },
        body: { name, description, sleep_events: startsAsleep ? ["agent_started"] : [], wake_events: ["mentioned"] },
      }),
    gcTime: 0, // the answer holds the token
    onSuccess: () => client.invalidateQueries({ queryKey: ["agents"] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (barrier === undefined) creating.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={creating.isSuccess ? "The agent is there" : "Add an agent"} centered>
      {creating.isSuccess ? (
        <NewToken agent={creating.data.reference} token={creating.data.token} onClose={onClose} />
      ) : (
        <form onSubmit={submit}>
          <Stack>
            {barrier && (
              <Text size="sm" role="note">
                {barrier}
              </Text>
            )}
            <TextInput
              label="Name"
              description="Small letters, digits, - and _; at most 63"
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              pattern="[a-z0-9][a-z0-9_\-]{0,62}"
              required
              data-autofocus
            />
            <Select
              label="Session"
              data={(sessions.data ?? []).map((each) => each.name)}
              value={session}
              onChange={(value) => setSession(value ?? "default")}
              searchable
            />
            <Textarea
              label="Description"
              description="Other agents read it to know whom to ask"
              value={description}
              onChange={(event) => setDescription(event.currentTarget.value)}
              autosize
            />
            <Checkbox
              label="Starts asleep"
              checked={startsAsleep}
              onChange={(event) => setStartsAsleep(event.currentTarget.checked)}
            />
            {creating.isError && (
              <Alert color="red" variant="outline" role="alert">
                <Text size="sm">{creating.error.message}</Text>
              </Alert>
            )}
            <Group justify="flex-end">
              <Button type="submit" loading={creating.isPending} disabled={barrier !== undefined}>
                Create
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
