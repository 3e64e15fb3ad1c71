/** Return the reference of an event's agent: its bare name in the session `default`. */
export function referenceOf(session: string | null, agent: string): string {
  return session === null || session === "default" ? agent : `${session}:${agent}`;
}

/** Split a reference into its session and name. */
export function splitReference(reference: string): { session: string; agent: string } {
  const colon = reference.lastIndexOf(":");
  return { session: colon < 0 ? "default" : reference.slice(0, colon), agent: reference.slice(colon + 1) };
}
