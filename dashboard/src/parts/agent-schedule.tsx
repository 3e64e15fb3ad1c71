import type { ScheduleView } from "@circadia/client";
import { Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { circadia } from "../server/circadia";
import { scheduleQuery } from "../server/queries";
import { problemsOf, scheduleBody, versionOf } from "../server/schedule-draft";
import { useSchedulePreview } from "../server/schedule-preview";
import { useDraft } from "../server/use-draft";
import { BlackoutList } from "./blackout-list";
import { describeEntry, nameEntry } from "./describe-schedule";
import { DraftBar } from "./draft-bar";
import { Name } from "./name";
import { QueryView } from "./query-view";
import { RoutineList } from "./routine-list";
import { WeekChart } from "./week-chart";

/** The agent's routines and blackouts, and its next week. */
export function AgentSchedule({ reference }: { reference: string }) {
  const schedule = useQuery(scheduleQuery(reference));
  return <QueryView query={schedule}>{(schedule) => <ScheduleEditor key={schedule.agent} saved={schedule} />}</QueryView>;
}

/** A draft of the schedule with what it comes to; nothing is set before it is saved. */
function ScheduleEditor({ saved }: { saved: ScheduleView }) {
  const path = { agent: saved.agent };
  const server = versionOf(saved);
  const draft = useDraft({
    name: `schedule ${saved.agent}`,
    server,
    save: (draft, etag) => circadia.setSchedule({ path, body: scheduleBody(draft), headers: { "If-Match": etag } }),
    success: `The schedule of ${saved.agent} is changed.`,
  });
  const preview = useSchedulePreview(saved, draft.draft);
  const { error } = preview;
  const problems = error === null ? [] : problemsOf(draft.values, error.message, error.problem?.errors ?? []);
  const labelOf = (name: string) => nameEntry(name, draft.values[name] ?? server.values[name] ?? draft.draft?.base.values[name]);
  return (
    <Stack>
      <WeekChart schedule={preview.schedule} isDraft={draft.draft !== null} />
      <NextRuns schedule={preview.schedule} isDraft={draft.draft !== null} isOutdated={error !== null} />
      <RoutineList saved={saved} draft={draft} problems={problems} />
      <BlackoutList zone={saved.zone} draft={draft} problems={problems} />
      <DraftBar
        draft={draft}
        labelOf={labelOf}
        describe={describeEntry}
        problems={problems.map(({ entry, message }) => (entry === "" ? message : `${labelOf(entry)}: ${message}`))}
      />
    </Stack>
  );
}

function NextRuns({ schedule, isDraft, isOutdated }: { schedule: ScheduleView; isDraft: boolean; isOutdated: boolean }) {
  const clock = new Intl.DateTimeFormat(undefined, { timeZone: schedule.zone, weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" }); // prettier-ignore
  return (
    <section aria-label="Next runs">
      <Title order={2} size="h5">
        Next runs in {schedule.zone}
      </Title>
      <Text size="sm" role="status" c={isOutdated ? "var(--tone-bad)" : "dimmed"}>
        {isOutdated ? "The draft has an error; this is what there was before it." : isDraft ? "Of the draft, which is not saved." : ""}
      </Text>
      {schedule.next_runs.length === 0 ? (
        <Text size="sm">No run is due.</Text>
      ) : (
        <ol className="run-list">
          {schedule.next_runs.map(({ at, local, routine, deferred_from }) => (
            <li key={`${at} ${routine}`}>
              <time dateTime={at} title={local}>
                {clock.format(new Date(at))}
              </time>{" "}
              <Name text={routine} />
              {deferred_from !== null && ", after a blackout"}
            </li>
          ))}
        </ol>
      )}
      {schedule.never_run.map((name) => (
        <Text size="sm" key={name} c="var(--tone-bad)">
          <Name text={name} /> never runs: blackouts skip it each time.
        </Text>
      ))}
    </section>
  );
}
