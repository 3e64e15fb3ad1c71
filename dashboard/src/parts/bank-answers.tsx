import type { AnswerView } from "@circadia/client";
import { Button, Group, Paper, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { circadia } from "../server/circadia";
import { formatCount, formatUsd } from "../server/format";
import { answersQuery, answerStatsQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { Empty } from "./empty";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { Stat } from "./stat";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

/** The ready answers of a bank: whether they pay, the list, and a test of a question. */
export function BankAnswers({ bank }: { bank: string }) {
  const stats = useQuery(answerStatsQuery(bank));
  const answers = useQuery(answersQuery(bank));
  const share = (value: number | null) => (value === null ? "–" : `${Math.round(value * 100)} %`);
  return (
    <Stack>
      <QueryView query={stats}>
        {(stats) => (
          <SimpleGrid cols={{ base: 2, sm: 5 }}>
            <Stat label="Ready">{formatCount(stats.live)}</Stat>
            <Stat label="Served">{share(stats.hit_rate)}</Stat>
            <Stat label="Hints">{share(stats.hint_rate)}</Stat>
            <Stat label="Right" note={`${formatCount(stats.samples)} sampled`}>
              {share(stats.precision)}
            </Stat>
            <Stat label="Wasted tokens">{formatCount(stats.wasted_tokens)}</Stat>
          </SimpleGrid>
        )}
      </QueryView>
      <QueryView query={answers}>
        {(answers) => (
          <>
            {answers.length > 0 && <TestQuestion bank={bank} agents={[...new Set(answers.map(({ agent }) => agent))]} />}
            <VirtualTable
              label="Ready answers"
              rows={answers}
              rowKey={(answer) => answer.id}
              columns={columnsFor(bank)}
              empty={
                <Empty command={`circadia passes run ${bank}`}>
                  No ready answer. Turn on the operation that predicts questions (docs/how-to/turn-on-ready-answers.md); then a pass makes them:
                </Empty>
              }
            />
          </>
        )}
      </QueryView>
    </Stack>
  );
}

function columnsFor(bank: string): Column<AnswerView>[] {
  return [
    { id: "question", header: "Question", width: "3fr", cell: (answer) => <Name text={answer.question} />, sortValue: (answer) => answer.question },
    { id: "text", header: "Answer", width: "3fr", cell: (answer) => <Name text={answer.text} />, isWideOnly: true },
    { id: "stands", header: "Found now", width: "8rem", cell: (answer) => <Text size="sm">{answer.stands ? "yes" : `no: ${answer.why_not}`}</Text>, isWideOnly: true },
    { id: "made", header: "Made", width: "6rem", cell: (answer) => <Ago at={answer.made_at} />, sortValue: (answer) => answer.made_at },
    { id: "uses", header: "Uses", width: "4rem", cell: (answer) => answer.uses, sortValue: (answer) => answer.uses, isNumber: true },
    { id: "usd", header: "Cost", width: "5rem", cell: (answer) => formatUsd(answer.usd ?? 0), sortValue: (answer) => answer.usd ?? 0, isNumber: true, isWideOnly: true },
    {
      id: "acts",
      header: "Acts",
      width: "5rem",
      cell: (answer) => (
        <ActButton
          size="compact-xs"
          subject={answer.question}
          act={() => circadia.dropAnswer({ path: { bank, answer: answer.id } })}
          success="The answer is no longer found."
          warning={`No call finds this answer any more: ${answer.question}`}
        >
          Drop
        </ActButton>
      ),
    },
  ];
}

function TestQuestion({ bank, agents }: { bank: string; agents: string[] }) {
  const [agent, setAgent] = useState(agents[0] ?? "");
  const [question, setQuestion] = useState("");
  const testing = useMutation({ mutationFn: () => circadia.tryAnswers({ path: { bank }, body: { agent, question } }) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    testing.mutate();
  };
  return (
    <Paper withBorder p="sm">
      <form onSubmit={submit}>
        <Group align="flex-end">
          <Select label="Agent" data={agents} value={agent} onChange={(value) => setAgent(value ?? "")} allowDeselect={false} />
          <TextInput
            label="Test a question"
            description="No model is asked, and nothing is counted"
            value={question}
            onChange={(event) => setQuestion(event.currentTarget.value)}
            style={{ flex: "1 1 16rem" }}
            required
          />
          <Button type="submit" loading={testing.isPending}>
            Test
          </Button>
        </Group>
      </form>
      <Text size="sm" mt="xs" role="status">
        {testing.isError && testing.error.message}
        {testing.data && `${testing.data.outcome}: ${testing.data.steps.join("; ")}`}
      </Text>
    </Paper>
  );
}
