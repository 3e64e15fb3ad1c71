import { formatNumberOf } from "./format";

interface BulkResult {
  done: number;
  /** Messages of those that failed. */
  failed: string[];
}

/** Act on each row, one after the other; what fails does not keep the others from it. Raises the error if all fail. */
export async function actOnAll<Row>(rows: readonly Row[], act: (row: Row) => Promise<unknown>): Promise<BulkResult> {
  const result: BulkResult = { done: 0, failed: [] };
  let last: unknown;
  for (const row of rows) {
    try {
      await act(row);
      result.done++;
    } catch (error) {
      last = error;
      result.failed.push((error as Error).message);
    }
  }
  if (result.done === 0 && last !== undefined) throw last;
  return result;
}

export function describeResult({ done, failed }: BulkResult, word: string): string {
  return failed.length === 0 ? `${done} ${word}.` : `${done} ${word}; ${formatNumberOf(failed.length, "other")} failed: ${failed[0]}`;
}
