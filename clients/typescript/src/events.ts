import { CircadiaError, connectionError } from "./errors.js";
import type { ListEventsData, ListEventsResponse } from "./generated/types.gen.js";
import { backoff, pause } from "./pauses.js";
import { parseServerSentEvents } from "./server-sent-events.js";

/** An event of the server's record. */
export type CircadiaEvent = ListEventsResponse["events"][number];

/** Events that were deleted before they were read: those after `after` and before `oldest`. */
export interface EventGap {
  after: number;
  oldest: number;
}

type Filters = Pick<NonNullable<ListEventsData["query"]>, "session" | "agent" | "type">;

export interface EventOptions extends Filters {
  /** Number of the last event seen; 0 begins with the oldest, and by default the events begin now. */
  after?: number;
  /** Ends the iteration, without an error. */
  signal?: AbortSignal;
  /** Called when events were deleted before they were read. Without it, a gap throws a CircadiaError. */
  onGap?: (gap: EventGap) => void;
  /** Called with true when the stream is connected, and with false when the connection is lost. */
  onConnection?: (isConnected: boolean) => void;
  /** A connection without any data, keep-alives included, for so many seconds is lost. Default: 60. */
  silenceSeconds?: number;
}

/** Opens the event stream after the event with this number, or now. */
export type OpenEventStream = (after: number | undefined, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>;

/**
 * Yield events and resume after the last one when the connection is lost.
 *
 * A server that cannot be reached at first is tried `maxRetries` times more; one that was reached, until it is back.
 */
export async function* followEvents(
  open: OpenEventStream,
  maxRetries: number,
  { after, signal, onGap, onConnection, silenceSeconds = 60 }: EventOptions,
): AsyncGenerator<CircadiaEvent, void, undefined> {
  let last = after;
  let wasReached = false;
  for (let failures = 0; !signal?.aborted; ) {
    const connection = new AbortController();
    signal?.addEventListener("abort", () => connection.abort(signal.reason), { signal: connection.signal });
    try {
      const stream = await open(last, connection.signal);
      wasReached = true;
      onConnection?.(true);
      for await (const block of parseServerSentEvents(readChunks(stream, connection, silenceSeconds))) {
        failures = 0;
        if (block.event === "gap") reportGap(JSON.parse(block.data ?? "") as EventGap, onGap);
        else {
          if (block.id !== undefined) last = Number(block.id);
          if (block.data !== undefined) yield JSON.parse(block.data) as CircadiaEvent;
        }
        if (signal?.aborted) return;
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (!isTemporary(error) || (!wasReached && failures >= maxRetries)) throw error;
    } finally {
      connection.abort();
    }
    onConnection?.(false);
    failures++;
    await pause(backoff(failures), signal).catch(() => {}); // an abort ends the loop
  }
}

async function* readChunks(
  stream: ReadableStream<Uint8Array>,
  connection: AbortController,
  silenceSeconds: number,
): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  for (;;) {
    const lost = new Error(`no data for ${silenceSeconds} s`);
    const timer = setTimeout(() => connection.abort(lost), silenceSeconds * 1000);
    const chunk = await reader.read().catch((error: unknown) => connectionError(error));
    clearTimeout(timer);
    if (chunk instanceof CircadiaError) throw chunk;
    if (chunk.done) return;
    yield chunk.value;
  }
}

function reportGap(gap: EventGap, onGap: EventOptions["onGap"]): void {
  if (onGap) return onGap(gap);
  throw new CircadiaError(
    `events after ${gap.after} and before ${gap.oldest} have been deleted; pass \`onGap\` to go on without them`,
    { code: "gap" },
  );
}

function isTemporary(error: unknown): boolean {
  if (!(error instanceof CircadiaError)) return false;
  return error.status === undefined ? error.code === "unreachable" : error.status === 429 || error.status >= 500;
}
