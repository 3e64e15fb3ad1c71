import type { AgentDay, Span } from "../server/agent-day";
import { formatDuration, formatNumberOf } from "../server/format";
import { Chart } from "./chart";

const DAY = 86_400_000;
const LEFT = 72;
const ROW = 26;

/** One day from left to right, in UTC: sleep, held calls, pulses and wakes. */
export function DayChart({ day, dayStart, now }: { day: AgentDay; dayStart: number; now: number }) {
  const rows: [string, readonly Span[], string][] = [
    ["asleep", day.asleep, "var(--tone-asleep)"],
    ["held", day.held, "var(--tone-held)"],
    ["pulses", day.pulses, "var(--tone-pulse)"],
  ];
  const height = ROW * 4 + 22;
  const asleepSeconds = day.asleep.reduce((sum, { from, to }) => sum + (to - from) / 1000, 0);
  const summary =
    `Today in UTC: asleep for ${formatDuration(asleepSeconds)}, ${formatNumberOf(day.held.length, "held call")}, ` +
    `${formatNumberOf(day.pulses.length, "pulse")}, ${formatNumberOf(day.wakes.length, "wake request")}.`;
  return (
    <Chart label={summary} height={height} caption={summary}>
      {(width, tip) => {
        const x = (at: number) => LEFT + ((at - dayStart) / DAY) * (width - LEFT - 8);
        return (
          <>
        {[0, 6, 12, 18, 24].map((hour) => (
          <g key={hour}>
            <line x1={x(dayStart + hour * 3_600_000)} x2={x(dayStart + hour * 3_600_000)} y1={0} y2={ROW * 4} stroke="var(--mantine-color-default-border)" />
            <text x={x(dayStart + hour * 3_600_000)} y={height - 6} fontSize="11" textAnchor={hour === 24 ? "end" : "middle"} fill="var(--mantine-color-dimmed)">
              {`${String(hour).padStart(2, "0")}:00`}
            </text>
          </g>
        ))}
        {rows.map(([label, spans, colour], index) => (
          <g key={label}>
            <RowLabel index={index} label={label} />
            {spans.map((span) => (
              <rect
                key={`${span.from} ${span.title}`}
                x={x(span.from)}
                y={index * ROW + 5}
                width={Math.max(2, x(span.to) - x(span.from))}
                height={ROW - 10}
                rx={3}
                fill={span.hasFailed ? "var(--tone-bad)" : colour}
                {...tip(`${span.title}, ${formatDuration((span.to - span.from) / 1000)}`)}
              />
            ))}
          </g>
        ))}
        <RowLabel index={3} label="wakes" />
        {day.wakes.map((wake) => (
          <circle
            key={`${wake.at} ${wake.title}`}
            cx={x(wake.at)}
            cy={3.5 * ROW}
            r={5}
            fill={wake.isAdmitted ? "var(--tone-awake)" : "transparent"}
            stroke={wake.isAdmitted ? "var(--tone-awake)" : "var(--tone-bad)"}
            strokeWidth={2}
            {...tip(wake.title)}
          />
        ))}
        <line x1={x(now)} x2={x(now)} y1={0} y2={ROW * 4} stroke="var(--mantine-color-text)" strokeDasharray="3 3" />
          </>
        );
      }}
    </Chart>
  );
}

function RowLabel({ index, label }: { index: number; label: string }) {
  return (
    <text x={0} y={index * ROW + ROW / 2 + 4} fontSize="12" fill="var(--mantine-color-text)">
      {label}
    </text>
  );
}
