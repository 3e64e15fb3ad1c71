import type { EffectiveSettingView } from "@circadia/client";
import { Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { PageTitle } from "../parts/page-title";
import { QueryView } from "../parts/query-view";
import { type Column, VirtualTable } from "../parts/virtual-table";
import { formatNumberOf } from "../server/format";
import { configurationQuery } from "../server/queries";
import { useTypedPart, useViewPart } from "../server/view";

const COLUMNS: Column<EffectiveSettingView>[] = [
  { id: "key", header: "Key", width: "3fr", cell: ({ key }) => <Name text={key} mono />, sortValue: ({ key }) => key },
  { id: "value", header: "Value", width: "4fr", cell: ({ value }) => <Name text={describe(value)} mono />, csvValue: ({ value }) => describe(value) },
  { id: "source", header: "From", width: "6rem", cell: ({ source }) => source, sortValue: ({ source }) => source },
];

/** The configuration with which the server has started, without secrets. */
export default function ConfigurationPage() {
  const configuration = useQuery(configurationQuery);
  const [text, setText, kept] = useTypedPart("key");
  const [source, setSource] = useViewPart("from", "all");
  return (
    <Stack>
      <PageTitle about="The settings with which this server has started, and where each comes from. Secrets are hidden.">Configuration</PageTitle>
      <Group align="flex-end">
        <TextInput label="Filter by key" value={text} onChange={(event) => setText(event.currentTarget.value)} style={{ flex: "1 1 12rem" }} maw={360} />
        <SegmentedControl aria-label="From" data={["all", "file", "defaults", "built in"]} value={source} onChange={setSource} style={{ flexWrap: "wrap" }} />
      </Group>
      <QueryView query={configuration}>
        {({ settings, version, check }) => (
          <>
            <Text size="sm">
              Circadia {version}; servers with the same configuration show the digits {check}.
            </Text>
            <SettingTable settings={settings} wanted={kept.trim().toLowerCase()} source={source} />
          </>
        )}
      </QueryView>
    </Stack>
  );
}

function SettingTable({ settings, wanted, source }: { settings: readonly EffectiveSettingView[]; wanted: string; source: string }) {
  const rows = useMemo(
    () => settings.filter((each) => each.key.toLowerCase().includes(wanted) && (source === "all" || each.source === source)),
    [settings, wanted, source],
  );
  return (
    <>
      <Text size="sm" role="status">
        {formatNumberOf(rows.length, "setting")}
      </Text>
      <VirtualTable label="Settings" rows={rows} rowKey={({ key }) => key} columns={COLUMNS} empty={<Empty>No setting meets the filter.</Empty>} />
    </>
  );
}

/** Return a value as it is written in the file. */
function describe(value: unknown): string {
  return typeof value === "string" && value !== "" ? value : JSON.stringify(value);
}
