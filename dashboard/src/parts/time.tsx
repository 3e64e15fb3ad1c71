import { useSyncExternalStore } from "react";

import { serverNow } from "../server/clock";
import { formatAgo, formatDuration } from "../server/format";

const COARSE_MILLISECONDS = 10_000;
const watchers = new Set<() => void>();
let second = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** One timer for all times of the page. */
function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= setInterval(() => {
    second++;
    for (const each of watchers) each();
  }, 1000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Return the server's time, anew each second. */
export function useServerNow(): number {
  useSyncExternalStore(watch, () => second);
  return serverNow();
}

/** Return the begin of the server's present ten seconds: a picture moves no more often. */
export function useCoarseNow(): number {
  return useSyncExternalStore(watch, () => Math.floor(serverNow() / COARSE_MILLISECONDS) * COARSE_MILLISECONDS);
}

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** How long ago something happened, by the server's clock; the exact time is its title. */
export function Ago({ at }: { at: string }) {
  const now = useServerNow();
  return (
    <time dateTime={at} title={full.format(new Date(at))}>
      {formatAgo(now - Date.parse(at))}
    </time>
  );
}

/** How long something has lasted, by the server's clock. */
export function Lasting({ since }: { since: string }) {
  const now = useServerNow();
  return (
    <time dateTime={since} title={`since ${full.format(new Date(since))}`}>
      {formatDuration((now - Date.parse(since)) / 1000)}
    </time>
  );
}

/** A time of day; the date is its title. */
export function ClockTime({ at }: { at: string }) {
  return (
    <time dateTime={at} title={full.format(new Date(at))}>
      {short.format(new Date(at))}
    </time>
  );
}

export function DateTime({ at }: { at: string }) {
  return <time dateTime={at}>{full.format(new Date(at))}</time>;
}
