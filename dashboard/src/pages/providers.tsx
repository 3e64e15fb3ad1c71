import type { UpstreamView } from "@circadia/client";
import { Anchor, Code, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { callsAddress } from "../server/call-filter";
import { startOfDay } from "../server/clock";
import { formatCount, formatNumberOf, formatUsd } from "../server/format";
import { providersQuery, usageQuery } from "../server/queries";

interface Provider extends UpstreamView {
  calls: number;
  failed: number;
  usd: number;
}

const COLUMNS: Column<Provider>[] = [
  { id: "name", header: "Provider", width: "2fr", cell: ({ name }) => <Name text={name} />, sortValue: ({ name }) => name },
  { id: "api", header: "API", width: "6rem", cell: ({ api }) => api, sortValue: ({ api }) => api, isWideOnly: true },
  { id: "base", header: "Base URL for agents", width: "4fr", cell: ({ path }) => <Name text={`${location.origin}${path}`} mono />, csvValue: ({ path }) => path, isWideOnly: true },
  { id: "variable", header: "Variable", width: "2fr", cell: ({ url_variable: variable }) => <Name text={variable} mono />, csvValue: ({ url_variable: variable }) => variable, isWideOnly: true },
  {
    id: "calls",
    header: "Calls today",
    width: "6rem",
    cell: ({ name, calls }) => (
      <Anchor component={Link} size="sm" href={callsAddress({ upstream: name, since: startOfDay() })} aria-label={`${formatNumberOf(calls, "call")} of ${name} today`}>
        {formatCount(calls)}
      </Anchor>
    ),
    sortValue: ({ calls }) => calls,
    isNumber: true,
  },
  {
    id: "failed",
    header: "Failed",
    width: "5rem",
    cell: ({ name, failed }) => (
      <Anchor component={Link} size="sm" href={callsAddress({ upstream: name, since: startOfDay(), status: "failed" })} aria-label={`${formatCount(failed)} failed calls of ${name} today`}>
        {formatCount(failed)}
      </Anchor>
    ),
    sortValue: ({ failed }) => failed,
    isNumber: true,
  },
  { id: "usd", header: "Money", width: "5rem", cell: ({ usd }) => formatUsd(usd), sortValue: ({ usd }) => usd, isNumber: true, isWideOnly: true },
];

/** The model providers behind the gateway, and how agents reach them. */
export default function ProvidersPage() {
  const providers = useQuery(providersQuery);
  const usage = useQuery(usageQuery(["upstream"]));
  return (
    <Stack>
      <PageTitle about="The model providers behind the gateway: how agents reach them, and what they did today.">Providers</PageTitle>
      <QueryView query={providers}>
        {(providers) => {
          const sums = new Map(usage.data?.usage.map((line) => [line.key, line]));
          const rows = providers.map((each) => {
            const line = sums.get(each.name);
            return { ...each, calls: line?.calls ?? 0, failed: line?.failed ?? 0, usd: line?.cost_usd ?? 0 };
          });
          return (
            <VirtualTable
              label="Providers"
              rows={rows}
              rowKey={({ name }) => name}
              columns={COLUMNS}
              empty={
                <Empty command="circadia init">
                  The configuration names no provider: add one to <Code>upstreams</Code>, or let this write it:
                </Empty>
              }
            />
          );
        }}
      </QueryView>
    </Stack>
  );
}
