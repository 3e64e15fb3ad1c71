import type { AgentView } from "@circadia/client";
import { Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { buildAgentDay } from "../server/agent-day";
import { startOfDay } from "../server/clock";
import { useEventRecord } from "../server/event-record";
import { pulsesQuery } from "../server/queries";
import { DayChart } from "./day-chart";
import { EventTable } from "./event-table";
import { QueryView } from "./query-view";
import { useServerNow } from "./time";

/** The agent's day as a picture, and its newest events as a table. */
export function AgentDay({ agent }: { agent: AgentView }) {
  const events = useEventRecord({ session: agent.session, agent: agent.name });
  const pulses = useQuery(pulsesQuery(agent.reference));
  const now = Math.floor(useServerNow() / 10_000) * 10_000;
  return (
    <QueryView query={events} height={300}>
      {(events) => {
        const dayStart = Date.parse(startOfDay());
        const day = buildAgentDay({
          events, pulses: pulses.data ?? [], isAsleep: agent.sleeping, since: agent.since, dayStart, now,
        }); // prettier-ignore
        return (
          <Stack>
            <DayChart day={day} dayStart={dayStart} now={now} />
            <EventTable label={`Events of ${agent.reference}`} events={events} withAgent={false} />
          </Stack>
        );
      }}
    </QueryView>
  );
}
