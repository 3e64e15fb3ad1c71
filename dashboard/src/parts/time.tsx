import { useSyncExternalStore } from "react";

import { serverNow } from "../server/clock";
import { formatAgo, formatDuration } from "../server/format";
import { useZone } from "../server/preferences";

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

const FULL: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "long" };
const SHORT: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const formats = new Map<string, Intl.DateTimeFormat>();

/** Return the format of a kind in a zone, the same object each time. */
function formatOf(options: Intl.DateTimeFormatOptions, zone: string | undefined): Intl.DateTimeFormat {
  const key = `${options === FULL} ${zone}`;
  const known = formats.get(key) ?? new Intl.DateTimeFormat(undefined, { ...options, ...(zone !== undefined && { timeZone: zone }) });
  formats.set(key, known);
  return known;
}

/** Return a function that writes a time in the zone that the person has chosen. */
export function useTimeFormat(kind: "full" | "short" = "full"): (at: string) => string {
  const format = formatOf(kind === "full" ? FULL : SHORT, useZone());
  return (at) => format.format(new Date(at));
}

/** How long ago something happened, by the server's clock; the exact time is its title. */
export function Ago({ at }: { at: string }) {
  const now = useServerNow();
  const full = useTimeFormat();
  return (
    <time dateTime={at} title={full(at)}>
      {formatAgo(now - Date.parse(at))}
    </time>
  );
}

/** How long something has lasted, by the server's clock. */
export function Lasting({ since }: { since: string }) {
  const now = useServerNow();
  const full = useTimeFormat();
  return (
    <time dateTime={since} title={`since ${full(since)}`}>
      {formatDuration((now - Date.parse(since)) / 1000)}
    </time>
  );
}

/** A time of day; the date is its title. */
export function ClockTime({ at }: { at: string }) {
  const full = useTimeFormat();
  const short = useTimeFormat("short");
  return (
    <time dateTime={at} title={full(at)}>
      {short(at)}
    </time>
  );
}

export function DateTime({ at }: { at: string }) {
  const full = useTimeFormat();
  return <time dateTime={at}>{full(at)}</time>;
}
