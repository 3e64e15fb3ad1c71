import { Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { circadia } from "../server/circadia";
import { formatCount, formatNumberOf, formatUsd } from "../server/format";
import { bankSleeptimeQuery, passesQuery } from "../server/queries";
import { ActButton } from "./act-button";
import { PassTable } from "./pass-table";
import { QueryView } from "./query-view";

/** What waits in a bank, why no pass begins, and the passes so far. */
export function BankPasses({ bank }: { bank: string }) {
  const status = useQuery(bankSleeptimeQuery(bank));
  const passes = useQuery(passesQuery(bank));
  const path = { bank };
  return (
    <Stack>
      <QueryView query={status}>
        {(status) => (
          <Group justify="space-between">
            <Text size="sm" role="status">
              {formatNumberOf(status.backlog.episodes, "episode")} wait.{" "}
              {status.verdict.why && `${status.verdict.why.charAt(0).toUpperCase()}${status.verdict.why.slice(1)}. `}
              {formatCount(status.spent.tokens)} tokens and {formatUsd(status.spent.usd)} spent within 24 hours.
            </Text>
            <Group gap="xs">
              <ActButton act={() => circadia.runPass({ path, body: {} })} success="A pass waits for a worker.">
                Run a pass
              </ActButton>
              {status.paused_by === null ? (
                <ActButton act={() => circadia.pauseSleeptime({ path })} success="No new pass begins over this bank.">
                  Pause
                </ActButton>
              ) : (
                <ActButton act={() => circadia.resumeSleeptime({ path })} success="Passes may begin again.">
                  Resume
                </ActButton>
              )}
            </Group>
          </Group>
        )}
      </QueryView>
      <QueryView query={passes}>{(passes) => <PassTable label={`Passes over ${bank}`} passes={passes} />}</QueryView>
    </Stack>
  );
}
