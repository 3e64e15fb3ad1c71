import type { CircadiaEvent, EventOptions } from "@circadia/client";

export type LiveStatus = "connecting" | "live" | "reconnecting";

/** Opens an endless stream of events. */
export type FollowEvents = (options: EventOptions) => AsyncIterable<CircadiaEvent>;

/** Least time between two batches. */
const BATCH_MILLISECONDS = 250;
/** In which the events of one change come. */
const CHANGE_MILLISECONDS = 20;
const MOST_KEPT = 2000;

/**
 * The page's one stream of events: hands them on in batches and keeps the newest.
 *
 * It begins after the event with the given number and resumes after a lost connection, so that no event is missed.
 */
export class LiveEvents {
  status: LiveStatus = "connecting";
  /** The newest events, oldest first; a new array after each change. */
  recent: readonly CircadiaEvent[] = [];
  readonly #follow: FollowEvents;
  readonly #onError: (error: unknown) => void;
  readonly #onDoubt: () => void;
  readonly #listeners = new Set<(batch: readonly CircadiaEvent[]) => void>();
  readonly #watchers = new Set<() => void>();
  #batch: CircadiaEvent[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `onDoubt` is called when answers may be out of date: the connection is back, or events were deleted unread. */
  constructor(follow: FollowEvents, onError: (error: unknown) => void, onDoubt: () => void) {
    this.#follow = follow;
    this.#onError = onError;
    this.#onDoubt = onDoubt;
  }

  /** Follow the events after this number, until the signal. */
  async run(after: number, signal: AbortSignal): Promise<void> {
    const options: EventOptions = {
      after,
      signal,
      silenceSeconds: 45,
      onConnection: (isConnected) => this.#setStatus(isConnected ? "live" : "reconnecting"),
      onGap: () => this.#onDoubt(),
    };
    while (!signal.aborted) {
      try {
        for await (const event of this.#follow(options)) {
          options.after = event.number;
          this.#add(event);
        }
      } catch (error) {
        this.#onError(error);
        this.#setStatus("reconnecting");
        await new Promise((resolve) => setTimeout(resolve, 2000));
      }
    }
    clearTimeout(this.#timer);
  }

  /** Call `listener` with each batch of events. */
  listen(listener: (batch: readonly CircadiaEvent[]) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Call `watcher` when `status` or `recent` has changed. */
  watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  };

  #add(event: CircadiaEvent): void {
    this.#batch.push(event);
    this.#timer ??= setTimeout(() => this.#flush(), CHANGE_MILLISECONDS);
  }

  #flush(): void {
    const batch = this.#batch;
    this.#batch = [];
    this.#timer = undefined;
    if (batch.length === 0) return;
    this.#timer = setTimeout(() => this.#flush(), BATCH_MILLISECONDS);
    this.recent = [...this.recent, ...batch].slice(-MOST_KEPT);
    for (const listener of this.#listeners) listener(batch);
    for (const watcher of this.#watchers) watcher();
  }

  #setStatus(status: LiveStatus): void {
    if (status === this.status) return;
    const isBack = this.status === "reconnecting" && status === "live";
    this.status = status;
    if (isBack) this.#onDoubt();
    for (const watcher of this.#watchers) watcher();
  }
}
