import type { AnswerView } from "@circadia/client";
import { Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { circadia } from "../server/circadia";
import { formatUsd } from "../server/format";
import { answersQuery, answerStatsQuery, bankSleeptimeQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { AnswerStats } from "./answer-stats";
import { Empty } from "./empty";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { TestQuestion } from "./test-question";
import { Ago } from "./time";
import { type Column, VirtualTable } from "./virtual-table";

/** The ready answers of a bank: whether they pay, the list, and a test of a question. */
export function BankAnswers({ bank }: { bank: string }) {
  const stats = useQuery(answerStatsQuery(bank));
  const answers = useQuery(answersQuery(bank));
  const sleeptime = useQuery(bankSleeptimeQuery(bank));
  const balance = sleeptime.data?.balances.find(({ operation }) => operation === "precompute");
  return (
    <Stack>
      <QueryView query={stats}>{(stats) => <AnswerStats stats={stats} balance={balance} />}</QueryView>
      <QueryView query={answers}>
        {(answers) => (
          <>
            <TestQuestion bank={bank} agents={[...new Set(answers.map(({ agent }) => agent))]} />
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
    { id: "stands", header: "Found now", width: "8rem", cell: (answer) => <Name text={answer.stands ? "yes" : `no: ${answer.why_not}`} />, isWideOnly: true },
    { id: "made", header: "Made", width: "6rem", narrowWidth: "4.5rem", cell: (answer) => <Ago at={answer.made_at} />, sortValue: (answer) => answer.made_at },
    { id: "uses", header: "Uses", width: "4rem", narrowWidth: "2.5rem", cell: (answer) => answer.uses, sortValue: (answer) => answer.uses, isNumber: true },
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
