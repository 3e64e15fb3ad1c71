import { CircadiaError, type ScheduleView } from "@circadia/client";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useRef } from "react";

import { circadia } from "./circadia";
import type { Draft } from "./draft";
import { scheduleBody } from "./schedule-draft";

const TYPING_MILLISECONDS = 300;

export interface SchedulePreview {
  /** What the draft comes to; the last draft that the server could read, or the saved schedule. */
  schedule: ScheduleView;
  error: CircadiaError | null;
}

/** Try a draft at the server, which changes nothing, once a person has stopped typing. */
export function useSchedulePreview(saved: ScheduleView, draft: Draft | null): SchedulePreview {
  const [wanted] = useDebouncedValue(draft === null ? "" : JSON.stringify(scheduleBody(draft)), TYPING_MILLISECONDS);
  const isDraft = draft !== null && wanted !== "";
  const trial = useQuery({
    queryKey: ["schedule", "draft", saved.agent, wanted],
    queryFn: ({ signal }) =>
      circadia.setSchedule({
        path: { agent: saved.agent },
        query: { dry_run: true },
        body: JSON.parse(wanted) as ReturnType<typeof scheduleBody>,
        signal,
      }),
    enabled: isDraft,
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  const last = useRef<ScheduleView>(undefined);
  if (!isDraft) last.current = undefined;
  else if (trial.data) last.current = trial.data;
  return {
    schedule: last.current ?? saved,
    error: isDraft && trial.error instanceof CircadiaError ? trial.error : null,
  };
}
