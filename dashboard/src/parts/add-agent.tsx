import { Checkbox, Modal, Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { circadia } from "../server/circadia";
import { sessionsQuery } from "../server/queries";
import { ActForm } from "./act-form";
import { NewToken } from "./new-token";

/** Create an agent; its token is shown once. */
export function AddAgent({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
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
  return (
    <Modal opened onClose={onClose} title={creating.isSuccess ? "Agent created" : "Add an agent"} centered>
      {creating.isSuccess ? (
        <NewToken agent={creating.data.reference} token={creating.data.token} onClose={onClose} />
      ) : (
        <ActForm mutation={creating} submitLabel="Create">
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
        </ActForm>
      )}
    </Modal>
  );
}
