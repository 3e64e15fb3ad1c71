/** Settings by name; in a schedule, routines and blackouts by name. */
export type Values = Record<string, unknown>;

/** Settings as the server has them, with their entity tag. */
export interface Version {
  etag: string;
  values: Values;
}

/** What a person has changed and not saved: new values by name, undefined for one that is removed. */
export interface Draft {
  /** The version that they saw when they began. */
  base: Version;
  changes: Values;
}

/** A setting that differs between the version a person began with, the server's, and their draft. */
export interface Difference {
  name: string;
  before: unknown;
  theirs: unknown;
  mine: unknown;
  /** Whether both sides have changed it, and not alike. */
  isConflict: boolean;
}

/** Return the draft after more changes; null if it equals its base. */
export function changeDraft(draft: Draft | null, server: Version, changes: Values): Draft | null {
  return keepChanges(draft?.base ?? server, { ...draft?.changes, ...changes });
}

/** Return the draft on top of a newer version: what others have changed is taken over, what the person has changed stays. */
export function rebaseDraft(draft: Draft, server: Version): Draft | null {
  return keepChanges(server, draft.changes);
}

/** Return the draft without one of its changes. */
export function dropChange({ base, changes }: Draft, name: string): Draft | null {
  const { [name]: _, ...others } = changes;
  return keepChanges(base, others);
}

/** Return the settings as the draft has them. */
export function valuesOf({ base, changes }: Draft): Values {
  return Object.fromEntries(Object.entries({ ...base.values, ...changes }).filter(([, value]) => value !== undefined));
}

/** Return all differences, if the server's settings have changed since the draft was begun; none if they have not. */
export function compareVersions({ base, changes }: Draft, server: Version): Difference[] {
  if (isEqual(base.values, server.values)) return [];
  const names = new Set([...Object.keys(base.values), ...Object.keys(server.values), ...Object.keys(changes)]);
  return [...names]
    .map((name): Difference => {
      const before = base.values[name];
      const theirs = server.values[name];
      const mine = name in changes ? changes[name] : before;
      const isConflict = !isEqual(theirs, before) && !isEqual(mine, before) && !isEqual(mine, theirs);
      return { name, before, theirs, mine, isConflict };
    })
    .filter(({ before, theirs, mine }) => !isEqual(theirs, before) || !isEqual(mine, before));
}

function keepChanges(base: Version, changes: Values): Draft | null {
  const kept = Object.entries(changes).filter(([name, value]) => !isEqual(value, base.values[name]));
  return kept.length === 0 ? null : { base, changes: Object.fromEntries(kept) };
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
