import type { AgentView, ContextView, HitView } from "@circadia/client";
import { Alert, Anchor, Button, Group, List, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link } from "wouter";

import { circadia } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { contextQuery } from "../server/queries";
import { useActBarrier } from "../server/session";
import { useView } from "../server/view";
import { Empty } from "./empty";
import { ForeignText, Name } from "./name";
import { QueryView } from "./query-view";
import { ScoreParts } from "./score-parts";
import { DateTime } from "./time";

/** What memory would add to a call of the agent now, for a question. */
export function AgentContext({ agent }: { agent: AgentView }) {
  const [params, setParts] = useView();
  const asked = params.get("q") ?? "";
  const user = params.get("user") ?? "";
  const [question, setQuestion] = useState(asked);
  const [name, setName] = useState(user);
  const bank = agent.policy?.bank ?? null;
  if (bank === null) {
    return <Empty command={`circadia agents change ${agent.reference} --policy '{"bank": "team"}'`}>The agent has no bank, so memory adds nothing to its calls. Bind one:</Empty>;
  }
  const needsUser = [bank, ...(agent.policy?.banks ?? [])].some((each) => each.includes("{user}"));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setParts({ q: question.trim(), user: name.trim() });
  };
  return (
    <Stack>
      <form onSubmit={submit}>
        <Group align="flex-end">
          <TextInput
            label="Question"
            description="What a person would ask the agent; empty shows the blocks alone"
            value={question}
            onChange={(event) => setQuestion(event.currentTarget.value)}
            style={{ flex: "3 1 16rem" }}
          />
          {needsUser && (
            <TextInput label="End user" value={name} onChange={(event) => setName(event.currentTarget.value)} style={{ flex: "1 1 8rem" }} required />
          )}
          <Button type="submit">Show the context</Button>
        </Group>
      </form>
      {needsUser && user === "" ? (
        <Text size="sm">Each end user has a bank of their own: name one.</Text>
      ) : (
        <>
          <Shown agent={agent} bank={bank} question={asked} user={user} />
          {asked !== "" && !needsUser && <ReadyHint key={asked} agent={agent} bank={bank} question={asked} />}
        </>
      )}
    </Stack>
  );
}

function Shown({ agent, bank, question, user }: { agent: AgentView; bank: string; question: string; user: string }) {
  const { banks = [], inject, stable_tokens, fitting_tokens } = agent.policy ?? {};
  const others = banks.filter((each) => each !== bank);
  const context = useQuery(
    contextQuery(bank, {
      ...(question && { q: question }),
      ...(bank.includes("{user}") && { user }),
      ...(others.length > 0 && { also: others }),
      ...(stable_tokens !== undefined && { stable_tokens }),
      ...(fitting_tokens !== undefined && { fitting_tokens }),
    }),
  );
  return (
    <>
      {inject === false && <Alert color="orange" variant="outline">The agent&apos;s policy says inject: false, so its calls get none of this.</Alert>}
      <QueryView query={context}>{(context) => <Parts context={context} />}</QueryView>
    </>
  );
}

function Parts({ context }: { context: ContextView }) {
  return (
    <Stack>
      {context.left_out_banks.length > 0 && <Text size="sm">Not there, or not open to the agent: {context.left_out_banks.join(", ")}.</Text>}
      <section aria-label="Blocks">
        <Title order={2} size="h5">
          At the end of the system prompt
        </Title>
        {context.stable ? <ForeignText text={context.stable} /> : <Text size="sm">No pinned block.</Text>}
        {context.left_out.length > 0 && <Text size="sm">Blocks beyond the budget: {context.left_out.join(", ")}.</Text>}
        <Group gap="xs">
          {context.blocks.map((label) => (
            <Anchor key={label} component={Link} size="sm" underline="always" href={`/banks/${encodeURIComponent(context.bank)}?tab=blocks&block=${encodeURIComponent(label)}`}>
              <Name text={label} />
            </Anchor>
          ))}
        </Group>
      </section>
      <section aria-label="Behind the question">
        <Title order={2} size="h5">
          Behind the newest user turn
        </Title>
        {context.fitting ? <ForeignText text={context.fitting} /> : <Text size="sm">Nothing fits the question.</Text>}
      </section>
      {context.hits.length > 0 && (
        <section aria-label="Hits">
          <Title order={2} size="h5" mb="xs">
            Why: {formatNumberOf(context.hits.length, "hit")} with the parts of their score
          </Title>
          <Stack component="ol" gap="xs" m={0} p={0} style={{ listStyle: "none" }} aria-label="Hits">
            {context.hits.map((hit) => (
              <Hit key={`${hit.bank} ${hit.id} ${hit.passage}`} hit={hit} />
            ))}
          </Stack>
        </section>
      )}
    </Stack>
  );
}

function Hit({ hit }: { hit: HitView }) {
  const isNote = hit.layer === "notes";
  return (
    <Paper component="li" withBorder p="sm">
      <ForeignText text={hit.text} />
      <Text size="xs" component="div">
        {hit.kind} of <Name text={hit.bank} />, trust: {hit.trust}, <DateTime at={hit.at} />{" "}
        <Anchor component={Link} size="xs" underline="always" href={`/banks/${encodeURIComponent(hit.bank)}?${isNote ? `note=${hit.id}` : `tab=episodes&episode=${hit.id}`}`}>
          Show the {isNote ? "note" : "episode"}
        </Anchor>
      </Text>
      <ScoreParts score={hit.score} parts={hit.parts} />
    </Paper>
  );
}

/** Whether a ready answer would be served, or shown as a hint. */
function ReadyHint({ agent, bank, question }: { agent: AgentView; bank: string; question: string }) {
  const barrier = useActBarrier();
  const testing = useMutation({ mutationFn: () => circadia.tryAnswers({ path: { bank }, body: { agent: agent.reference, question } }) });
  return (
    <section aria-label="Ready answer">
      <Title order={2} size="h5" mb="xs">
        Ready answer
      </Title>
      {barrier ? (
        <Text size="sm">{barrier}</Text>
      ) : (
        <Button size="xs" variant="default" onClick={() => testing.mutate()} loading={testing.isPending}>
          Look for a ready answer
        </Button>
      )}
      {testing.isError && (
        <Text size="sm" role="alert" className="foreign-text">
          {testing.error.message}
        </Text>
      )}
      {testing.data && (
        <Stack gap="xs" role="status" mt="xs">
          <Text size="sm" fw={600}>
            A {testing.data.outcome}
          </Text>
          <List size="sm">
            {testing.data.steps.map((step, index) => (
              <List.Item key={index}>
                <ForeignText text={step} />
              </List.Item>
            ))}
          </List>
          {testing.data.answer && <ForeignText text={testing.data.answer.text} />}
        </Stack>
      )}
    </section>
  );
}
