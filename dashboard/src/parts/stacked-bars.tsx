import { Group, Text } from "@mantine/core";

import type { Bar } from "../server/usage-by-day";
import { Chart } from "./chart";
import { Name } from "./name";

interface StackedBarsProps {
  label: string;
  bars: readonly Bar[];
  format: (value: number) => string;
}

const COLOURS = [1, 2, 3, 4, 5, 6, 7].map((number) => `var(--series-${number})`);
const HEIGHT = 180;
const LEFT = 64;
const BOTTOM = 20;

/** Bars beside each other, each of parts; a screen reader gets the sums. */
export function StackedBars({ label, bars, format }: StackedBarsProps) {
  const sum = (bar: Bar) => bar.parts.reduce((total, { value }) => total + value, 0);
  const most = Math.max(...bars.map(sum), 0);
  const y = (value: number) => HEIGHT - BOTTOM - (most === 0 ? 0 : (value / most) * (HEIGHT - BOTTOM - 8));
  const names = bars[0]?.parts.map(({ name }) => name) ?? [];
  const summary = `${label}: ${bars.map((bar) => `${bar.label} ${format(sum(bar))}`).join(", ")}`;
  const caption = (
    <Group gap="md">
      {names.map((name, index) => (
        <Group key={name} gap={4} wrap="nowrap" style={{ minWidth: 0 }}>
          <span aria-hidden="true" style={{ flex: "none", width: 12, height: 12, background: COLOURS[index % COLOURS.length] }} />
          <Text size="xs" component="span" style={{ minWidth: 0 }}>
            <Name text={name} />
          </Text>
        </Group>
      ))}
    </Group>
  );
  return (
    <Chart label={summary} height={HEIGHT} caption={caption}>
      {(width, tip) => {
        const step = (width - LEFT) / Math.max(1, bars.length);
        const every = Math.ceil((bars.length * 44) / (width - LEFT));
        return (
          <>
            {[0, most / 2, most].slice(0, most === 0 ? 1 : 3).map((value) => (
              <g key={value}>
                <line x1={LEFT} x2={width} y1={y(value)} y2={y(value)} stroke="var(--mantine-color-default-border)" />
                <text x={LEFT - 6} y={y(value) + 4} fontSize="11" textAnchor="end" fill="var(--mantine-color-dimmed)">
                  {format(value)}
                </text>
              </g>
            ))}
            {bars.map((bar, index) => {
              let base = 0;
              const parts = bar.parts.filter(({ value }) => value > 0).map(({ name, value }) => `${name} ${format(value)}`);
              return (
                <g key={bar.label} {...tip([`${bar.label}: ${format(sum(bar))}`, ...parts].join("\n"))}>
                  <rect x={LEFT + index * step} y={0} width={step} height={HEIGHT - BOTTOM} fill="transparent" />
                  {bar.parts.map(({ name, value }, part) => {
                    const bottom = y(base);
                    base += value;
                    const barWidth = Math.min(48, step * 0.7);
                    return (
                      <rect
                        key={name}
                        x={LEFT + index * step + (step - barWidth) / 2}
                        y={y(base)}
                        width={barWidth}
                        height={Math.max(0, bottom - y(base))}
                        fill={COLOURS[part % COLOURS.length]}
                      />
                    );
                  })}
                  {index % every === 0 && (
                    <text x={LEFT + (index + 0.5) * step} y={HEIGHT - 5} fontSize="11" textAnchor="middle" fill="var(--mantine-color-dimmed)">
                      {bar.label.slice(5)}
                    </text>
                  )}
                </g>
              );
            })}
          </>
        );
      }}
    </Chart>
  );
}
