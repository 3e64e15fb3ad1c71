import type { CircadiaEvent } from "@circadia/client";
import { useContext, useEffect, useRef, useSyncExternalStore } from "react";

import type { LiveEvents, LiveStatus } from "./live-events";
import { LiveContext } from "./session";

export function useLive(): LiveEvents {
  const live = useContext(LiveContext);
  if (live === null) throw new Error("no events outside of the signed-in page");
  return live;
}

export function useLiveStatus(): LiveStatus {
  const live = useLive();
  return useSyncExternalStore(live.watch, () => live.status);
}

/** Call `listener` with each batch of events. */
export function useEventBatches(listener: (batch: readonly CircadiaEvent[]) => void): void {
  const live = useLive();
  const latest = useRef(listener);
  useEffect(() => {
    latest.current = listener;
  });
  useEffect(() => live.listen((batch) => latest.current(batch)), [live]);
}
