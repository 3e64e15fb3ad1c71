import type { CircadiaEvent } from "@circadia/client";
import { Button, Group, MultiSelect, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useSearchParams } from "wouter";

import { EventTable } from "../parts/event-table";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { circadia } from "../server/circadia";
import { useRecentEvents } from "../server/live";
import { EVENT_TYPES } from "../server/refresh";

const MOST_SHOWN = 2000;

/** The record of events, as it grows. */
export default function EventsPage() {
  const [params, setParams] = useSearchParams();
  const types = params.getAll("type") as CircadiaEvent["type"][];
  const [agent, setAgent] = useState("");
  const [held, setHeld] = useState<readonly CircadiaEvent[]>();
  return (
    <Stack>
      <PageTitle
        about="What has happened, newest first. New events appear by themselves, and none is missed after a lost connection."
        acts={<PauseButton held={held} setHeld={setHeld} />}
      >
        Events
      </PageTitle>
      <Group align="flex-end">
        <MultiSelect
          label="Types"
          data={EVENT_TYPES.map((value) => ({ value, label: value.replaceAll("_", " ") }))}
          value={types}
          onChange={(chosen) => setParams(chosen.map((type) => ["type", type]), { replace: true })}
          searchable
          clearable
          clearButtonProps={{ "aria-label": "Clear the types" }}
          style={{ flex: "2 1 16rem" }}
        />
        <TextInput
          label="Agent"
          value={agent}
          onChange={(event) => setAgent(event.currentTarget.value)}
          style={{ flex: "1 1 10rem" }}
        />
      </Group>
      <Tail types={types} agent={agent.trim()} held={held} />
    </Stack>
  );
}

interface PauseButtonProps {
  held: readonly CircadiaEvent[] | undefined;
  setHeld: (held: readonly CircadiaEvent[] | undefined) => void;
}

/** Stops the list, so that one can read it. */
function PauseButton({ held, setHeld }: PauseButtonProps) {
  const recent = useRecentEvents();
  return (
    <Button size="xs" variant="default" aria-pressed={held !== undefined} onClick={() => setHeld(held ? undefined : recent)}>
      {held ? "Continue" : "Pause"}
    </Button>
  );
}

interface TailProps {
  types: CircadiaEvent["type"][];
  agent: string;
  /** What is shown while the list is stopped. */
  held: readonly CircadiaEvent[] | undefined;
}

function Tail({ types, agent, held }: TailProps) {
  const recent = useRecentEvents();
  const key = types.join();
  const before = useQuery({
    queryKey: ["events", "before", key],
    queryFn: ({ signal }) =>
      circadia.listEvents({ query: { order: "newest", limit: 500, ...(types.length > 0 && { type: types }) }, signal }),
    staleTime: Infinity,
    gcTime: 0, // read anew for each visit: the stream's own events are bounded
  });
  const live = held ?? recent;
  const old = before.data;
  const events = useMemo(() => {
    if (old === undefined) return [];
    const newer = live.filter(({ number }) => number > old.after).toReversed();
    const wanted = new Set(key === "" ? [] : key.split(","));
    return [...newer, ...old.events]
      .filter((event) => (wanted.size === 0 || wanted.has(event.type)) && (agent === "" || (event.agent ?? "").includes(agent)))
      .slice(0, MOST_SHOWN);
  }, [live, old, key, agent]);
  return (
    <QueryView query={before}>
      {() => (
        <>
          <Text size="sm" role="status">
            {events.length} events shown{held && ", stopped"}
          </Text>
          <EventTable label="Events" events={events} />
        </>
      )}
    </QueryView>
  );
}
