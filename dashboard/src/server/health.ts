import type { CircadiaEvent } from "@circadia/client";

const RECENT_MILLISECONDS = 3_600_000;
const UPSTREAM_MILLISECONDS = 900_000;

/** A problem, in one sentence. */
export interface Finding {
  about: "server" | "database" | "upstream" | "sleep-time work" | "alert";
  text: string;
  at?: string;
  href?: string;
}

interface Signs {
  /** The server's present time. */
  now: number;
  isConnected: boolean;
  /** Why the server is not ready; empty if it is. */
  readiness: string | undefined;
  /** Newest first. */
  alerts: readonly CircadiaEvent[];
  /** Newest first. */
  upstreamErrors: readonly CircadiaEvent[];
  /** Problems of passes by bank. */
  red: readonly string[];
}

/** Return what is not well: an empty list says that all is. */
export function findProblems(signs: Signs): Finding[] {
  const findings: Finding[] = [];
  if (!signs.isConnected) findings.push({ about: "server", text: "The server cannot be reached; the page shows what it last knew." });
  if (signs.readiness) findings.push({ about: "database", text: `The server is not ready: ${signs.readiness}` });
  findings.push(...findUpstreamProblems(signs));
  findings.push(...signs.red.map((text): Finding => ({ about: "sleep-time work", text: `Passes fail: ${text}` })));
  const recent = signs.alerts.filter((alert) => isWithin(alert, signs.now, RECENT_MILLISECONDS) && !isRecovery(alert));
  const byText = new Map(recent.toReversed().map((alert) => [describeAlert(alert), alert]));
  for (const [text, alert] of byText) findings.push({ about: "alert", text, at: alert.at });
  return findings;
}

function findUpstreamProblems({ upstreamErrors, now }: Signs): Finding[] {
  const recent = upstreamErrors.filter((error) => isWithin(error, now, UPSTREAM_MILLISECONDS) && isProvidersFault(error));
  const newest = new Map(recent.toReversed().map((error) => [String(field(error, "upstream") ?? "an upstream"), error]));
  return [...newest].map(([upstream, error]) => ({
    about: "upstream",
    text: `${upstream} failed ${recent.filter((other) => (field(other, "upstream") ?? "an upstream") === upstream).length} times in 15 minutes.`,
    at: error.at,
  }));
}

/** Whether the provider failed or refused the key; other 4xx answers are about what the agent sent. */
function isProvidersFault(error: CircadiaEvent): boolean {
  const status = field(error, "status");
  return typeof status !== "number" || status >= 500 || [401, 403, 429].includes(status);
}

function isWithin(event: CircadiaEvent, now: number, milliseconds: number): boolean {
  return now - Date.parse(event.at) <= milliseconds;
}

function isRecovery(alert: CircadiaEvent): boolean {
  return String(field(alert, "cause")).endsWith("_over");
}

/** Return an alert in one line: its cause and its details. */
export function describeAlert(alert: CircadiaEvent): string {
  const { cause, ...details } = alert.data as Record<string, unknown>;
  const who = alert.agent === null ? "" : ` of ${alert.session === "default" ? "" : `${alert.session}:`}${alert.agent}`;
  const more = Object.entries(details)
    .filter(([, value]) => value !== null && value !== "")
    .map(([key, value]) => `${key.replaceAll("_", " ")} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  return `${String(cause ?? "alert").replaceAll("_", " ")}${who}${more.length > 0 ? `: ${more.join(", ")}` : ""}`;
}

/** Return a value of an event's data. */
export function field(event: CircadiaEvent, name: string): unknown {
  return (event.data as Record<string, unknown>)[name];
}
