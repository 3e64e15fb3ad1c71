import type { PassStatus as Status } from "@circadia/client";
import { Group, MultiSelect, Text, Title } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";

import { formatNumberOf } from "../server/format";
import { allPassesQuery } from "../server/queries";
import { Empty } from "./empty";
import { OlderRows } from "./older-rows";
import { PASS_STATUSES } from "./pass-status";
import { PassTable } from "./pass-table";
import { QueryView } from "./query-view";

/** The passes over all banks, newest first. */
export function PassHistory() {
  const [params, setParams] = useSearchParams();
  const status = params.getAll("status") as Status[];
  const passes = useInfiniteQuery(allPassesQuery(status));
  return (
    <section aria-label="History">
      <Group justify="space-between" align="flex-end" mb="xs">
        <Title order={2} size="h5">
          History
        </Title>
        <MultiSelect
          label="Status"
          data={PASS_STATUSES.map((value) => ({ value, label: value.replaceAll("_", " ") }))}
          value={status}
          onChange={(chosen) => setParams(chosen.map((each) => ["status", each]))}
          placeholder={status.length === 0 ? "any" : ""}
          clearable
          clearButtonProps={{ "aria-label": "Clear the statuses" }}
          style={{ flex: "0 1 22rem" }}
        />
      </Group>
      <QueryView query={passes}>
        {(rows) => (
          <>
            <PassTable
              label="History of passes"
              passes={rows}
              isPart={passes.hasNextPage}
              hasBanks
              empty={
                status.length > 0 ? (
                  <Text size="sm" p="md">
                    No pass has this status.
                  </Text>
                ) : (
                  <Empty command="circadia passes run team --wait">There was no pass yet. Triggers begin passes, or you do:</Empty>
                )
              }
            />
            <OlderRows query={passes} count={formatNumberOf(rows.length, "pass", "passes")} />
          </>
        )}
      </QueryView>
    </section>
  );
}
