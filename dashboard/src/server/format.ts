const STEPS = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
] as const;

/** Return a duration in its two largest units, such as `3 min 20 s`. */
export function formatDuration(seconds: number): string {
  let rest = Math.max(0, Math.floor(seconds));
  const parts: string[] = [];
  for (const [size, unit] of STEPS) {
    const count = Math.floor(rest / size);
    if (count > 0) parts.push(`${count} ${unit}`);
    rest -= count * size;
  }
  if (rest > 0 || parts.length === 0) parts.push(`${rest} s`);
  return parts.slice(0, 2).join(" ");
}

/** Return how long ago something was, in one unit. */
export function formatAgo(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 0) return `in ${formatDuration(-seconds)}`;
  if (seconds < 2) return "now";
  const [size, unit] = STEPS.find(([step]) => seconds >= step) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Return a count, shortened from 100,000 on. */
export function formatCount(count: number): string {
  return Math.abs(count) < 100_000 ? whole.format(count) : compact.format(count);
}

/** Return a count with its noun, such as `1 call` or `2 calls`. */
export function formatNumberOf(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}

/** Return a figure with its limit and the unit of both, which is a plural: `1 dead letter`, `1 of 5 calls`. */
export function formatAmount(figure: number, limit: number | null, unit: string): string {
  if (unit === "US dollars") return `${formatUsd(figure)}${limit === null ? "" : ` of ${formatUsd(limit)}`} ${unit}`;
  if (limit !== null) return `${formatCount(figure)} of ${formatCount(limit)} ${unit}`;
  return formatNumberOf(figure, unit.replace(/s(?=$| in )/, ""), unit);
}

/** Return an amount of US dollars; small ones keep two digits that are not zero. */
export function formatUsd(usd: number): string {
  if (usd === 0) return "$0";
  const digits = Math.abs(usd) >= 1 ? 2 : Math.min(8, 2 - Math.floor(Math.log10(Math.abs(usd))));
  return `${usd < 0 ? "−" : ""}$${Math.abs(usd).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: Math.max(2, digits - 1) })}`;
}

/** Return rows as CSV; a cell that a spreadsheet would take for a formula begins with an apostrophe. */
export function formatCsv(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((row) => `${row.map(formatCell).join(",")}\r\n`).join("");
}

function formatCell(cell: string | number): string {
  if (typeof cell === "number") return String(cell);
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
