import type { TestView } from "@circadia/client";
import { Alert, Autocomplete, Button, Group, List, Paper, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { circadia } from "../server/circadia";
import { useActBarrier } from "../server/session";
import { ForeignText } from "./name";

/** Ask how a question would be answered, without a model and without counting it. */
export function TestQuestion({ bank, agents }: { bank: string; agents: string[] }) {
  const barrier = useActBarrier();
  const [agent, setAgent] = useState(agents[0] ?? "");
  const [question, setQuestion] = useState("");
  const testing = useMutation({ mutationFn: () => circadia.tryAnswers({ path: { bank }, body: { agent, question } }) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (barrier === undefined) testing.mutate();
  };
  return (
    <Paper withBorder p="sm" component="section" aria-label="Test a question">
      <Stack gap="xs">
        <form onSubmit={submit}>
          <Group align="flex-end">
            <Autocomplete label="Agent" data={agents} value={agent} onChange={setAgent} required />
            <TextInput
              label="Question"
              value={question}
              onChange={(event) => setQuestion(event.currentTarget.value)}
              style={{ flex: "1 1 16rem" }}
              required
            />
            <Button type="submit" loading={testing.isPending} disabled={barrier !== undefined}>
              Test
            </Button>
          </Group>
        </form>
        <Text size="sm">{barrier ?? "No model is asked, and nothing is counted."}</Text>
        {testing.isError && (
          <Alert color="red" variant="outline" role="alert">
            {testing.error.message}
          </Alert>
        )}
        {testing.data && <Outcome outcome={testing.data} />}
      </Stack>
    </Paper>
  );
}

function Outcome({ outcome: { outcome, steps, answer, mode, trusted } }: { outcome: TestView }) {
  return (
    <Stack gap="xs" role="status">
      <Text size="sm" fw={600}>
        A {outcome}: the agent&apos;s mode is {mode}
        {!trusted && ", and too many sampled answers were wrong to serve any"}.
      </Text>
      <List size="sm">
        {steps.map((step, index) => (
          <List.Item key={index}>
            <ForeignText text={step} />
          </List.Item>
        ))}
      </List>
      {answer && <ForeignText text={answer.text} />}
    </Stack>
  );
}
