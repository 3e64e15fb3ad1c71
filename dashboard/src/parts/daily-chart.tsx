import { SegmentedControl, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { serverNow } from "../server/clock";
import { formatCount, formatUsd } from "../server/format";
import { usageQuery } from "../server/queries";
import { QueryView } from "./query-view";
import { type Bar, StackedBars } from "./stacked-bars";

const MEASURES = ["tokens", "calls", "money"] as const;
type Measure = (typeof MEASURES)[number];

/** Use per day: tokens by direction, calls by outcome, or money. */
export function DailyChart({ daysAgo }: { daysAgo: number }) {
  const [measure, setMeasure] = useState<Measure>("tokens");
  const usage = useQuery(usageQuery("day", daysAgo));
  return (
    <Stack gap="xs">
      <SegmentedControl
        aria-label="Measure"
        size="xs"
        value={measure}
        onChange={(value) => setMeasure(value as Measure)}
        data={[...MEASURES]}
        style={{ alignSelf: "flex-start" }}
      />
      <QueryView query={usage}>
        {({ usage }) => {
          const byDay = new Map(usage.map((line) => [line.key, line]));
          const bars = lastDays(daysAgo).map((day): Bar => {
            const line = byDay.get(day);
            if (measure === "money") return { label: day, parts: [{ name: "US dollars", value: line?.cost_usd ?? 0 }] };
            const parts =
              measure === "calls"
                ? [
                    { name: "answered", value: (line?.calls ?? 0) - (line?.failed ?? 0) },
                    { name: "failed", value: line?.failed ?? 0 },
                  ]
                : [
                    { name: "input", value: (line?.input_tokens ?? 0) - (line?.cached_tokens ?? 0) },
                    { name: "cached input", value: line?.cached_tokens ?? 0 },
                    { name: "output", value: line?.output_tokens ?? 0 },
                  ];
            return { label: day, parts };
          });
          return <StackedBars label={`${measure} a day`} bars={bars} format={measure === "money" ? formatUsd : formatCount} />;
        }}
      </QueryView>
    </Stack>
  );
}

function lastDays(daysAgo: number): string[] {
  return Array.from({ length: daysAgo + 1 }, (_, index) =>
    new Date(serverNow() - (daysAgo - index) * 86_400_000).toISOString().slice(0, 10),
  );
}
