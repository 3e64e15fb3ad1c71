import type { AgentView } from "@circadia/client";
import { Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { useEventRecord } from "../server/event-record";
import { timelineQuery } from "../server/queries";
import { describeLane, type Range, sumLane, windowOf } from "../server/timeline";
import { useViewPart } from "../server/view";
import { EventTable } from "./event-table";
import { LaneBar } from "./lane";
import { QueryView } from "./query-view";
import { useCoarseNow } from "./time";
import { Legend, RANGES, Scale } from "./timeline-view";

const WORDS: Record<Range, string> = { "6 h": "The last 6 hours", day: "Today in UTC", yesterday: "Yesterday in UTC", "7 days": "The last 7 days" };

/** The agent's day as a picture, and its newest events as a table. */
export function AgentDay({ agent }: { agent: AgentView }) {
  const [shown, setRange] = useViewPart("time", "day");
  const range = RANGES.find((each) => each === shown) ?? "day";
  const events = useEventRecord({ session: agent.session, agent: agent.name });
  const timeline = useQuery(timelineQuery(range, { session: agent.session, agent: agent.name }));
  const now = useCoarseNow();
  const window = useMemo(() => windowOf(range, now), [range, now]);
  const { ref, width } = useElementSize();
  return (
    <Stack>
      <section aria-label="Timeline" className="timeline">
        <Group justify="space-between" mb="xs">
          <Legend />
          <SegmentedControl aria-label="Time" size="xs" value={range} onChange={setRange} data={RANGES} />
        </Group>
        <div ref={ref} className="scale-frame">
          <Scale window={window} now={now} width={width} />
          <QueryView query={timeline} height={40}>
            {({ lanes }) => {
              const spans = lanes.find(({ is_deleted }) => !is_deleted)?.spans ?? [];
              return (
                <>
                  <LaneBar label={WORDS[range]} spans={spans} window={window} now={now} width={width} />
                  <Text size="sm">
                    {WORDS[range]}: {describeLane(sumLane(spans, window, now))}.
                  </Text>
                </>
              );
            }}
          </QueryView>
        </div>
      </section>
      <QueryView query={events} height={300}>
        {(events) => <EventTable label={`Events of ${agent.reference}`} events={events} withAgent={false} />}
      </QueryView>
    </Stack>
  );
}
