const WIDTH = 100;
const HEIGHT = 26;

interface SparklineProps {
  label: string;
  values: readonly number[];
  /** Colour of the line. */
  colour: string;
  /** A line across, such as the mean of other days. */
  mean?: number;
}

/** A small line without a scale: how a figure came to where it is. */
export function Sparkline({ label, values, colour, mean }: SparklineProps) {
  if (values.length < 2) return null;
  const most = Math.max(0, ...values, mean ?? 0);
  const x = (index: number) => (index / (values.length - 1)) * WIDTH;
  const y = (value: number) => HEIGHT - 2 - (most === 0 ? 0 : (Math.max(0, value) / most) * (HEIGHT - 4));
  const points = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label} className="sparkline">
      {mean !== undefined && (
        <line x1={0} x2={WIDTH} y1={y(mean)} y2={y(mean)} stroke="var(--tone-quiet)" strokeDasharray="2 2" vectorEffect="non-scaling-stroke" />
      )}
      <polyline points={points} fill="none" stroke={colour} strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
