import type { AlarmView } from "@circadia/client";
import { Stack } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";

import { ActButton } from "../parts/act-button";
import { Empty } from "../parts/empty";
import { AgentLink, ForeignText, Name } from "../parts/name";
import { OlderRows } from "../parts/older-rows";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { Ago } from "../parts/time";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { circadia } from "../server/circadia";
import { formatNumberOf } from "../server/format";
import { alarmsQuery } from "../server/queries";

const COLUMNS: Column<AlarmView>[] = [
  { id: "agent", header: "Agent", width: "2fr", cell: ({ agent }) => <AgentLink reference={agent} />, sortValue: ({ agent }) => agent },
  { id: "next", header: "Due", width: "9rem", narrowWidth: "6rem", cell: ({ next_at: at }) => (at === null ? "rang" : <Ago at={at} />), sortValue: ({ next_at: at }) => at ?? "" },
  { id: "name", header: "Name", width: "3fr", cell: ({ name }) => <Name text={name} />, sortValue: ({ name }) => name, isWideOnly: true },
  { id: "rule", header: "Recurs", width: "8rem", cell: describeRule, isWideOnly: true },
  { id: "reason", header: "Noted for itself", width: "4fr", cell: ({ reason }) => <ForeignText text={reason} />, csvValue: ({ reason }) => reason, isWideOnly: true },
  { id: "acts", header: "Acts", width: "6rem", narrowWidth: "5rem", cell: (alarm) => <CancelButton alarm={alarm} /> },
];

/** What agents have set for themselves. */
export default function AlarmsPage() {
  const query = useInfiniteQuery(alarmsQuery);
  return (
    <Stack>
      <PageTitle about="Alarms and routines that agents set for themselves. Their schedules by people are on their pages.">Alarms</PageTitle>
      <QueryView query={query}>
        {(alarms) => (
          <>
            <VirtualTable
              label="Alarms"
              rows={alarms}
              isPart={query.hasNextPage}
              rowKey={({ id }) => id}
              columns={COLUMNS}
              initialSort={{ column: "next", isDescending: false }}
              empty={<Empty>No agent has set an alarm. An agent sets one with the tool `sleep_self`.</Empty>}
            />
            {alarms.length > 0 && <OlderRows query={query} count={formatNumberOf(alarms.length, "alarm")} />}
          </>
        )}
      </QueryView>
    </Stack>
  );
}

function describeRule({ kind, every_seconds: seconds, cron }: AlarmView): string {
  if (kind === "alarm") return "once";
  return cron ?? `every ${seconds ?? 0} s`;
}

function CancelButton({ alarm }: { alarm: AlarmView }) {
  return (
    <ActButton
      size="compact-xs"
      subject={`${alarm.name} of ${alarm.agent}`}
      act={() => circadia.cancelAlarm({ path: { agent: alarm.agent, alarm: alarm.name } })}
      success={`${alarm.name} is cancelled.`}
    >
      Cancel
    </ActButton>
  );
}
