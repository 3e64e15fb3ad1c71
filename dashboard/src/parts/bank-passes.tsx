import type { SleeptimeStatusView } from "@circadia/client";
import { Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { formatNumberOf } from "../server/format";
import { bankSleeptimeQuery, passesQuery } from "../server/queries";
import { Balances } from "./balances";
import { Empty } from "./empty";
import { Name } from "./name";
import { PassActs } from "./pass-acts";
import { PassTable } from "./pass-table";
import { QueryView } from "./query-view";

/** The passes over one bank, and whether they pay. */
export function BankPasses({ bank }: { bank: string }) {
  const passes = useQuery(passesQuery(bank));
  const status = useQuery(bankSleeptimeQuery(bank));
  return (
    <Stack>
      <QueryView query={status}>{(status) => <BankStatus status={status} />}</QueryView>
      <QueryView query={passes}>
        {(passes) => (
          <PassTable
            label={`Passes over ${bank}`}
            passes={passes}
            empty={<Empty command={`circadia passes run ${bank} --wait`}>There was no pass over this bank yet. Triggers begin passes, or you do:</Empty>}
          />
        )}
      </QueryView>
    </Stack>
  );
}

function BankStatus({ status }: { status: SleeptimeStatusView }) {
  return (
    <>
      <Group justify="space-between">
        <Text size="sm" role="status">
          {formatNumberOf(status.backlog.episodes, "episode")} {status.backlog.episodes === 1 ? "waits" : "wait"}. {status.paused_by === null ? status.verdict.why || status.gate : <>Paused by <Name text={status.paused_by} /></>}
        </Text>
        <PassActs status={status} />
      </Group>
      {status.leftovers.length > 0 && (
        <Text size="sm">
          Failed, and retried or waiting for you to resume: {formatNumberOf(status.leftovers.length, "range")} of episodes. {status.leftovers[0]!.cause}
        </Text>
      )}
      <Balances balances={status.balances} />
    </>
  );
}
