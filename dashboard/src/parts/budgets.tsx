import type { AgentView } from "@circadia/client";
import { Anchor, Progress, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { callsAddress } from "../server/call-filter";
import { startOfDay } from "../server/clock";
import { formatCount, formatDuration, formatNumberOf, formatUsd } from "../server/format";
import { usageQuery, wakeStatsQuery } from "../server/queries";
import { QueryView } from "./query-view";
import { DateTime } from "./time";

/** What is left of the agent's budgets today. */
export function Budgets({ agent }: { agent: AgentView }) {
  const usage = useQuery(usageQuery(["agent"], 0, { session: agent.session, agent: agent.name }));
  const stats = useQuery(wakeStatsQuery(agent.reference));
  return (
    <Stack>
      <QueryView query={usage}>
        {({ total }) => (
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <Budget label="Calls today" used={total.calls} limit={agent.policy?.max_calls_per_day} format={formatCount} />
            <Budget
              label="Tokens today"
              used={total.input_tokens + total.output_tokens}
              limit={agent.policy?.max_tokens_per_day}
              format={formatCount}
            />
            <Budget label="Money today" used={total.cost_usd} limit={agent.policy?.max_usd_per_day} format={formatUsd} />
          </SimpleGrid>
        )}
      </QueryView>
      <Anchor component={Link} href={callsAddress({ session: agent.session, agent: agent.name, since: startOfDay() })} size="sm" underline="always">
        The calls of today, one by one
      </Anchor>
      <QueryView query={stats}>
        {(stats) => (
          <>
            <SimpleGrid cols={{ base: 1, sm: 3 }}>
              <Budget label="Wakes today" used={stats.wakes_today} limit={stats.max_wakes_per_day} format={formatCount} />
              <Budget
                label="Minutes of pulses today"
                used={stats.session_minutes_today}
                limit={stats.max_daily_session_minutes}
                format={formatCount}
              />
              <Cooldown remaining={stats.cooldown_remaining_seconds} seconds={stats.cooldown_seconds} />
            </SimpleGrid>
            <Text size="sm" c="dimmed">
              The agent&apos;s day is {stats.date} in {stats.timezone}. Its wakes count anew at{" "}
              <DateTime at={stats.resets_at} />. {formatNumberOf(stats.deferred, "deferred wake")}.
            </Text>
          </>
        )}
      </QueryView>
    </Stack>
  );
}

interface BudgetProps {
  label: string;
  used: number;
  limit: number | null | undefined;
  format: (amount: number) => string;
}

function Budget({ label, used, limit, format }: BudgetProps) {
  const hasLimit = limit !== null && limit !== undefined;
  const share = hasLimit && limit > 0 ? Math.min(100, (used / limit) * 100) : 0;
  const left = hasLimit ? Math.max(0, limit - used) : 0;
  return (
    <div>
      <Text size="sm" fw={600}>
        {label}
      </Text>
      <Text size="sm">{hasLimit ? `${format(used)} used of ${format(limit)}, ${format(left)} left` : `${format(used)} used, no limit`}</Text>
      {hasLimit && <Progress value={share} color={share >= 80 ? "red" : "indigo"} aria-label={`${label}: share used`} />}
    </div>
  );
}

/** How long the agent cannot be woken again, of the time after each wake; nothing is used up. */
function Cooldown({ remaining, seconds }: { remaining: number; seconds: number | null }) {
  const isRunning = remaining > 0 && seconds !== null && seconds > 0;
  const after = seconds === null || seconds === 0 ? "none" : `${formatDuration(seconds)} after a wake`;
  return (
    <div>
      <Text size="sm" fw={600}>
        Cooldown
      </Text>
      <Text size="sm">{isRunning ? `${formatDuration(remaining)} to wait, ${after}` : `not running; ${after}`}</Text>
      {isRunning && <Progress value={Math.min(100, (remaining / seconds) * 100)} color="indigo" aria-label="Cooldown: share to wait" />}
    </div>
  );
}
