import { pause } from "./pauses.js";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

export interface WaitOptions {
  /** Time after which the wait rejects with a `TimeoutError`. Default: none. */
  timeoutSeconds?: number;
  /** Ends the wait: it rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Read again, at most once a second, until the answer is the one awaited. */
export async function readUntil<Answer>(
  read: (signal: AbortSignal) => PromiseLike<Answer>,
  isAwaited: (answer: Answer) => boolean,
  { timeoutSeconds, signal }: WaitOptions = {},
): Promise<Answer> {
  const limits = signal ? [signal] : [];
  if (timeoutSeconds !== undefined) limits.push(AbortSignal.timeout(timeoutSeconds * 1000));
  const limit = AbortSignal.any(limits);
  for (let milliseconds = FIRST_PAUSE_MS; ; milliseconds = Math.min(LONGEST_PAUSE_MS, 2 * milliseconds)) {
    const answer = await read(limit);
    if (isAwaited(answer)) return answer;
    await pause(milliseconds, limit);
  }
}
