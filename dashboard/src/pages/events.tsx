import type { CircadiaEvent } from "@circadia/client";
import { Button, Group, MultiSelect, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useSearchParams } from "wouter";

import { EventTable } from "../parts/event-table";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { formatNumberOf } from "../server/format";
import { useEventRecord } from "../server/event-record";
import { splitReference } from "../server/reference";
import { EVENT_TYPES } from "../server/refresh";
import { useTypedPart } from "../server/view";

/** The record of events, as it grows. */
export default function EventsPage() {
  const [params, setParams] = useSearchParams();
  const types = params.getAll("type") as CircadiaEvent["type"][];
  const [reference, setReference, kept] = useTypedPart("agent");
  const wanted = kept.trim();
  const record = useEventRecord({ types, ...(wanted && splitReference(wanted)) });
  const [stopped, setStopped] = useState<readonly CircadiaEvent[]>();
  return (
    <Stack>
      <PageTitle
        about="What has happened, newest first. New events appear by themselves, and none is missed after a lost connection."
        acts={
          <Button
            size="xs"
            variant="default"
            aria-pressed={stopped !== undefined}
            onClick={() => setStopped(stopped ? undefined : record.data)}
          >
            {stopped ? "Continue" : "Pause"}
          </Button>
        }
      >
        Events
      </PageTitle>
      <Group align="flex-end">
        <MultiSelect
          label="Types"
          data={EVENT_TYPES.map((value) => ({ value, label: value.replaceAll("_", " ") }))}
          value={types}
          onChange={(chosen) => {
            setStopped(undefined);
            setParams((shown) => [...[...shown].filter(([name]) => name !== "type"), ...chosen.map((type) => ["type", type])]);
          }}
          searchable
          clearable
          clearButtonProps={{ "aria-label": "Clear the types" }}
          style={{ flex: "2 1 16rem" }}
        />
        <TextInput
          label="Agent"
          description="Its whole name, such as writer or team:writer"
          value={reference}
          onChange={(event) => {
            setStopped(undefined);
            setReference(event.currentTarget.value);
          }}
          style={{ flex: "1 1 10rem" }}
        />
      </Group>
      <QueryView query={record}>
        {(newest) => {
          const events = stopped ?? newest;
          return (
            <>
              <Text size="sm" role="status">
                {formatNumberOf(events.length, "event")} shown{stopped && ", stopped"}
              </Text>
              <EventTable label="Events" events={events} />
            </>
          );
        }}
      </QueryView>
    </Stack>
  );
}
