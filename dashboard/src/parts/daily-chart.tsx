import type { GroupUsage } from "@circadia/client";
import { SegmentedControl, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { formatCount, formatUsd } from "../server/format";
import { type UsageGroup, usageQuery } from "../server/queries";
import { lastDays, stackByDay } from "../server/usage-by-day";
import { QueryView } from "./query-view";
import { StackedBars } from "./stacked-bars";

const MEASURES: Record<string, (line: GroupUsage) => number> = {
  tokens: (line) => line.input_tokens + line.output_tokens,
  calls: (line) => line.calls,
  money: (line) => line.cost_usd,
};

/** Use per day: tokens, calls or money, stacked by another grouping. */
export function DailyChart({ daysAgo, by }: { daysAgo: number; by: UsageGroup }) {
  const [measure, setMeasure] = useState("tokens");
  const usage = useQuery(usageQuery(["day", by], daysAgo));
  return (
    <Stack gap="xs">
      <SegmentedControl
        aria-label="Measure"
        size="xs"
        value={measure}
        onChange={setMeasure}
        data={Object.keys(MEASURES)}
        style={{ alignSelf: "flex-start" }}
      />
      <QueryView query={usage}>
        {({ usage }) => (
          <StackedBars
            label={`${measure} a day by ${by.replaceAll("_", " ")}`}
            bars={stackByDay(usage, lastDays(daysAgo), MEASURES[measure]!)}
            format={measure === "money" ? formatUsd : formatCount}
          />
        )}
      </QueryView>
    </Stack>
  );
}
