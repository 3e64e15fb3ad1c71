/** The range, in milliseconds, in which the server's clock minus this browser's must lie. */
interface OffsetRange {
  least: number;
  most: number;
}

/** A response: its `Date` header, which is cut to whole seconds, and when it was asked for and arrived here. */
interface DateSample {
  date: number;
  sentAt: number;
  receivedAt: number;
}

/**
 * Narrow the range by one response: the server wrote the date between the request and the response.
 *
 * A response that contradicts the range means that a clock was set; the range starts anew.
 */
export function narrowOffset(range: OffsetRange | undefined, { date, sentAt, receivedAt }: DateSample): OffsetRange {
  const sample = { least: date - receivedAt, most: date + 1000 - sentAt };
  if (range === undefined || sample.least > range.most || sample.most < range.least) return sample;
  return { least: Math.max(range.least, sample.least), most: Math.min(range.most, sample.most) };
}

let range: OffsetRange | undefined;

/** Learn from a response's `Date` header. */
export function recordDate(header: string | null, sentAt: number, receivedAt: number): void {
  const date = Date.parse(header ?? "");
  if (!Number.isNaN(date)) range = narrowOffset(range, { date, sentAt, receivedAt });
}

/** Return the server's present time in milliseconds since 1970. */
export function serverNow(): number {
  return Date.now() + (range === undefined ? 0 : (range.least + range.most) / 2);
}

/** Return the start of the server's day in UTC, as the API takes it. */
export function startOfDay(daysAgo = 0): string {
  return new Date(serverNow() - daysAgo * 86_400_000).toISOString().slice(0, 10);
}
