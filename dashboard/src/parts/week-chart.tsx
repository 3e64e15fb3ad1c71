import type { ScheduleView } from "@circadia/client";

import { formatNumberOf } from "../server/format";
import { Chart } from "./chart";

const DAY = 86_400_000;
const LEFT = 56;
const ROW = 22;

/** The week from now on, a row for each day in UTC: blackouts as bars, runs as marks. */
export function WeekChart({ schedule, isDraft = false }: { schedule: ScheduleView; isDraft?: boolean }) {
  const first = Math.floor(Date.parse(schedule.since) / DAY) * DAY;
  const days = Array.from({ length: 8 }, (_, index) => first + index * DAY);
  const summary =
    `${isDraft ? "The draft of the next week" : "Next week"} in UTC: ${formatNumberOf(schedule.occurrences.length, "occurrence")}` +
    `${schedule.complete ? "" : ", of which the first are shown"}, ${formatNumberOf(schedule.spans.length, "blackout")}.`;
  return (
    <Chart label={summary} height={ROW * 8 + 18} caption={summary}>
      {(width, tip) => {
        const x = (at: number, day: number) => LEFT + ((at - day) / DAY) * (width - LEFT - 8);
        return (
          <>
        {days.map((day, index) => (
          <g key={day} transform={`translate(0 ${index * ROW})`}>
            <text x={0} y={15} fontSize="11" fill="var(--mantine-color-text)">
              {new Date(day).toISOString().slice(5, 10)}
            </text>
            <line x1={LEFT} x2={width - 8} y1={ROW - 2} y2={ROW - 2} stroke="var(--mantine-color-default-border)" />
            {schedule.spans
              .map(({ start, end, labels }) => ({ from: Math.max(Date.parse(start), day), to: Math.min(Date.parse(end), day + DAY), labels }))
              .filter(({ from, to }) => from < to)
              .map(({ from, to, labels }) => (
                <rect key={from} x={x(from, day)} y={3} width={x(to, day) - x(from, day)} height={ROW - 8} fill="var(--tone-quiet)" opacity={0.4} {...tip(`blackout ${labels.join(", ")}`)} />
              ))}
            {schedule.occurrences
              .filter(({ at }) => Date.parse(at) >= day && Date.parse(at) < day + DAY)
              .map(({ at, routine, policy }) => (
                <circle
                  key={`${at} ${routine}`}
                  cx={x(Date.parse(at), day)}
                  cy={ROW / 2 - 1}
                  r={4}
                  fill={policy === "run" ? "var(--tone-pulse)" : "transparent"}
                  stroke={policy === "run" ? "var(--tone-pulse)" : "var(--tone-held)"}
                  strokeWidth={2}
                  {...tip(`${routine}, ${at}: ${policy}`)}
                />
              ))}
          </g>
        ))}
        {[0, 6, 12, 18, 24].map((hour) => (
          <text
            key={hour}
            x={x(hour * 3_600_000, 0)}
            y={ROW * 8 + 12}
            fontSize="11"
            textAnchor={hour === 24 ? "end" : "middle"}
            fill="var(--mantine-color-dimmed)"
          >
            {`${String(hour).padStart(2, "0")}:00`}
          </text>
        ))}
          </>
        );
      }}
    </Chart>
  );
}
