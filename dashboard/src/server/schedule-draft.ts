import type { BlackoutBody, BlackoutView, FieldProblem, RoutineBody, RoutineView, ScheduleView, SetScheduleData } from "@circadia/client";

import { type Draft, type Values, valuesOf, type Version } from "./draft.ts";

type Kind = "routine" | "blackout";

/** An entry of a schedule by its name in a draft, such as `routine weekly`. */
export interface Entry<Body> {
  name: string;
  body: Body;
}

/** What the server says of a draft: of one field of an entry, of the entry, or of all. */
export interface Problem {
  /** Name of the entry; empty if it is about the whole schedule. */
  entry: string;
  /** Empty if it is about the entry. */
  field: string;
  message: string;
}

/** Return a schedule as settings: one for each routine and blackout, and the time zone, which changes their meaning. */
export function versionOf({ etag, zone, routines, blackouts }: ScheduleView): Version {
  const values: Values = { zone };
  for (const routine of routines) values[`routine ${routine.name}`] = routineBody(routine);
  for (const blackout of blackouts) {
    const body = blackoutBody(blackout);
    values[freeName(values, `blackout ${JSON.stringify(body)}`)] = body;
  }
  return { etag, values };
}

/** Return the entries of one kind, in the order in which the server gets them. */
export function entriesOf<Body extends RoutineBody | BlackoutBody>(kind: Kind, values: Values): Entry<Body>[] {
  const names = Object.keys(values).filter((name) => name.startsWith(`${kind} `));
  return names.map((name) => ({ name, body: values[name] as Body }));
}

/** Return what a save sends: the kinds that were changed, each whole. */
export function scheduleBody(draft: Draft): NonNullable<SetScheduleData["body"]> {
  const values = valuesOf(draft);
  const isChanged = (kind: Kind) => Object.keys(draft.changes).some((name) => name.startsWith(`${kind} `));
  return {
    ...(isChanged("routine") && { routines: entriesOf<RoutineBody>("routine", values).map(({ body }) => body) }),
    ...(isChanged("blackout") && { blackouts: entriesOf<BlackoutBody>("blackout", values).map(({ body }) => body) }),
  };
}

/** Return a name for a new entry that no other has. */
export function newName(kind: Kind, values: Values): string {
  return freeName(values, `${kind} \n`); // no name of a routine has a line break
}

/** Return the server's errors by entry and field; the message of the whole, if it names no value. */
export function problemsOf(values: Values, message: string, errors: readonly FieldProblem[]): Problem[] {
  if (errors.length === 0) return [{ entry: "", field: "", message }];
  return errors.map(({ path, message }) => {
    const [, kind, index, field = ""] = /^body\.(routine|blackout)s\.(\d+)(?:\.(\w+))?/.exec(path) ?? [];
    const entry = kind === undefined ? undefined : entriesOf(kind as Kind, values)[Number(index)];
    return { entry: entry?.name ?? "", field, message };
  });
}

function freeName(values: Values, wanted: string): string {
  let name = wanted;
  for (let number = 2; name in values; number++) name = `${wanted}${number}`;
  return name;
}

/** Return what the server takes of a routine that it has shown. */
function routineBody({ zone, next_at, deferred_from, last_at, skips, missed, ...body }: RoutineView): RoutineBody {
  return body;
}

function blackoutBody({ type, label, start_time, end_time, weekdays, start, end }: BlackoutView): BlackoutBody {
  return type === "recurring" ? { label, start_time, end_time, weekdays } : { label, start, end };
}
